"""Refusal of announced devices whose id belongs to another device. Pure.

A phone tells its own id, and its owner can make it tell any.
"""

from __future__ import annotations

from collections.abc import Iterable

from controller.contracts.device import (
    HOST_PREFIX,
    Agent,
    Device,
    DeviceKind,
    RefusedDevice,
    RegisteredDevice,
)
from controller.contracts.device_names import HOSTNAME, host_of

_ANOTHER_SERIAL = "Give the phone another serial number."


def objection_to(
    device: Device, known: RegisteredDevice | None, holder: Agent | None, agent: Agent
) -> RefusedDevice | None:
    """Return why a device is refused; None if it is accepted.

    known: the registered device with this id. holder: the agent that announced it.
    """
    if is_out_of_place(device):
        seen = f"it is a {_words(device)}, and only servers have ids that begin with {HOST_PREFIX}"
        return _refused(device, seen, _ANOTHER_SERIAL)
    if known is None or holder is None:
        return None
    if _words(known.device) != _words(device) and not is_out_of_place(known.device):
        seen = (
            f"it is a {_words(device)}, and {device.id} is known as a {_words(known.device)} of "
            f"agent {holder.id} on host {holder.host}"
        )
        return _refused(device, seen, _ANOTHER_SERIAL)
    if known.online and holder.id != agent.id:
        seen = f"agent {holder.id} on host {holder.host} has it"
        return _refused(device, seen, "Remove it there, or end that agent.")
    return None


def named_alike(device: Device, known: Iterable[RegisteredDevice]) -> RefusedDevice | None:
    """Return the refusal of a device whose id is another's name, or the host of another host's."""
    for other in known:
        if other.device.id == device.id:
            continue
        if device.id in (other.device.facts.get(HOSTNAME), host_of(other.device.facts)):
            seen = f"{device.id} is the host of device {other.device.id}"
            return RefusedDevice(device_id=device.id, seen=seen, remedy=_ANOTHER_SERIAL)
        if (other.life.name or "").casefold() == device.id.casefold():
            seen = f"{device.id} is the name of device {other.device.id}"
            remedy = f"Run `benchfarm device rename {other.device.id} --clear`."
            return RefusedDevice(device_id=device.id, seen=seen, remedy=remedy)
    return None


def announced_twice(device_id: str, agent: Agent) -> RefusedDevice:
    """Return the refusal of two devices of one agent with the same id."""
    seen = f"agent {agent.id} announces two devices with this id"
    return RefusedDevice(device_id=device_id, seen=seen, remedy="Disconnect one of them.")


def is_out_of_place(device: Device) -> bool:
    """Return whether a device that is not a server has the id of a server."""
    return device.kind is not DeviceKind.CPU_HOST and device.id.startswith(HOST_PREFIX)


def _words(device: Device) -> str:
    """Return the kind of a device, which never changes for its id."""
    return f"virtual {device.kind}" if device.virtual else str(device.kind)


def _refused(device: Device, seen: str, remedy: str) -> RefusedDevice:
    return RefusedDevice(device_id=device.id, seen=seen, remedy=remedy)
