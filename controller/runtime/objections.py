"""Refusal of a person's requests about a device."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from controller.contracts.device import HOST_PREFIX, Booking, RegisteredDevice
from controller.contracts.device_names import HOSTNAME, host_of
from controller.contracts.errors import DeviceBooked, LabelOfAgent, UserError
from controller.contracts.run import Run
from controller.scheduling.device_life import (
    Booked,
    DeviceEvent,
    Forgotten,
    Labelled,
    Renamed,
    conflict,
)


def require_possible(
    device: RegisteredDevice, event: DeviceEvent, known: Iterable[RegisteredDevice] = ()
) -> None:
    """Raise DeviceBooked, LabelOfAgent or UserError if an event is not possible.

    known: all devices of the farm.
    """
    match event:
        case Booked(booking):
            _require_free(device, booking)
        case Labelled(labels):
            _require_a_persons(device, labels)
        case Renamed(str(name)):
            _require_unlike(device, name, [d for d in known if d.device.id != device.device.id])
        case Forgotten():
            _require_away(device)


def require_no_run(device_id: str, run: Run | None) -> None:
    """Raise UserError if a run holds the lease of a device that is to be forgotten."""
    if run:
        raise UserError(
            f"forget device {device_id}",
            f"run {run.run_id} is leased to it",
            f"Wait until it has ended, or run `benchfarm sweep cancel {run.sweep_id}`.",
        )


def _require_free(device: RegisteredDevice, booking: Booking) -> None:
    if other := conflict(device.life, booking):
        raise DeviceBooked(
            f"reserve device {device.device.id} {booking.words}",
            f"it is booked {other.words}: {other.why}",
            "Choose another time, or have that booking ended: `benchfarm device release --all`.",
        )


def _require_a_persons(device: RegisteredDevice, labels: Mapping[str, str | None]) -> None:
    """Raise LabelOfAgent if a removed label is the agent's, which would set it again."""
    id_, agents = device.device.id, device.device.labels.keys() - device.life.labels.keys()
    gone = {name for name, value in labels.items() if value is None}
    for name in sorted(gone & agents):
        raise LabelOfAgent(
            f"remove label {name} from device {id_}",
            f"its agent {device.agent_id} sets it",
            f"Run `benchfarm device label {id_} {name}=VALUE` to set another value, or start that "
            "agent without it.",
        )


def _require_unlike(
    device: RegisteredDevice, name: str, others: Iterable[RegisteredDevice]
) -> None:
    """Raise UserError if a name is another device's, or may be taken for another's id or host."""
    tried, remedy = f"rename device {device.device.id} to {name}", "Choose another name."
    if name.startswith(HOST_PREFIX):
        seen = f"only ids of servers begin with {HOST_PREFIX}"
        raise UserError(tried, seen, remedy)
    for other in others:
        id_, facts = other.device.id, other.device.facts
        if other.life.name and other.life.name.casefold() == name.casefold():
            clear = f"Choose another, or run `benchfarm device rename {id_} --clear` first."
            raise UserError(tried, f"it is the name of device {id_}", clear)
        if id_.casefold().startswith(name.casefold()):
            raise UserError(tried, f"it could be taken for device {id_}", remedy)
        if name in (facts.get(HOSTNAME), host_of(facts)):
            raise UserError(tried, f"it is the host of device {id_}", remedy)


def _require_away(device: RegisteredDevice) -> None:
    if device.online:
        id_ = device.device.id
        raise UserError(
            f"forget device {id_}",
            f"it is online: agent {device.agent_id} has it",
            f"Disconnect it or end that agent first; to keep runs off it, run "
            f"`benchfarm device quarantine {id_} --why …`.",
        )
