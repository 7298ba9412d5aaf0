"""Refusal of a person's requests about a device."""

from __future__ import annotations

from collections.abc import Mapping

from controller.contracts.device import Booking, RegisteredDevice
from controller.contracts.errors import DeviceBooked, LabelOfAgent
from controller.scheduling.device_life import Booked, DeviceEvent, Labelled, conflict


def require_possible(device: RegisteredDevice, event: DeviceEvent) -> None:
    """Raise DeviceBooked or LabelOfAgent if an event is not possible."""
    match event:
        case Booked(booking):
            _require_free(device, booking)
        case Labelled(labels):
            _require_a_persons(device, labels)


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
