"""On which device of the farm a profile's advice is proven. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from controller.contracts.device import DeviceKind, RegisteredDevice
from controller.contracts.errors import UserError
from controller.scheduling.references import find_device

CPU: Final = "cpu_model"
CORES: Final = "cores"


@dataclass(frozen=True, slots=True)
class ProfiledHost:
    """The server that a profile is of, as the profile tells: it may be in no farm any more."""

    cpu: str
    cores: int | None
    device: str | None


def proving_device(
    devices: Sequence[RegisteredDevice], own: ProfiledHost, asked: str | None, subject: str
) -> RegisteredDevice:
    """Return a server with a profile's CPU: that which is asked for, else the best of the farm's.

    The profile's own comes first, then one with as many cores; those that are there before those
    that are away. Raises NotFound, UserError if none has the CPU.
    """
    servers = [
        known
        for known in devices
        if known.device.kind is DeviceKind.CPU_HOST and not known.device.virtual
    ]
    if asked is not None:
        id_ = find_device(asked, devices)
        servers = [known for known in servers if known.device.id == id_]
    fitting = [known for known in servers if known.device.facts.get(CPU) == own.cpu]
    if not fitting:
        raise _refusal(servers, own.cpu, asked, subject)
    return min(
        fitting,
        key=lambda known: (
            not known.online,
            known.device.id != own.device,
            known.device.facts.get(CORES) != own.cores,
            known.device.id,
        ),
    )


def _refusal(
    servers: Sequence[RegisteredDevice], cpu: str, asked: str | None, subject: str
) -> UserError:
    others = dict.fromkeys(str(known.device.facts.get(CPU)) for known in servers)
    if asked is None:
        where = f"no server of the farm has it: they have {', '.join(others) or 'none'}"
        remedy = "Join a host with that CPU, or profile the workload on one of these."
    else:
        where = f"{asked} has {', '.join(others) or 'none, since it is no server'}"
        remedy = "Leave --device out, or name a server with that CPU."
    return UserError(
        f"prove the advice of {subject}", f"it was profiled on {cpu}, and {where}", remedy
    )
