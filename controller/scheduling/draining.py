"""Draining an agent: its devices take no new runs, and runs under way finish. Pure: no clock.

The drain is the agent's, not its devices': one that comes later takes no runs either, and one that
moves to another host is free. It outlasts the agent's process and the controller's; a person ends
it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from controller.contracts.device import (
    DeviceHistoryEntry,
    Hold,
    RegisteredAgent,
    RegisteredDevice,
)
from controller.contracts.waiting import Waiting, WaitReason
from controller.scheduling.device_life import idle_status


@dataclass(frozen=True, slots=True)
class DrainChange:
    """An agent whose drain begins or ends, and its devices with their history entries."""

    agent: RegisteredAgent
    devices: tuple[RegisteredDevice, ...]
    events: tuple[DeviceHistoryEntry, ...]


def drain_change(
    known: RegisteredAgent,
    devices: Iterable[RegisteredDevice],
    draining: Hold | None,
    now: float,
    who: str,
    why: str,
) -> DrainChange:
    """Return what a person's beginning or end of a drain makes of an agent and its devices.

    devices: of all agents.
    """
    own = (d for d in devices if d.agent_id == known.agent.id)
    changed = tuple(d.model_copy(update={"draining": draining}) for d in own)
    entries = tuple(
        DeviceHistoryEntry(
            device_id=d.device.id, at=now, state=idle_status(d, now).state, who=who, why=why
        )
        for d in changed
    )
    return DrainChange(known.model_copy(update={"draining": draining}), changed, entries)


def waiting_for(agent_id: str, waits: Mapping[str, Waiting], owners: Mapping[str, str]) -> int:
    """Return how many queued runs wait for the end of an agent's drain.

    waits: what each run waits for; owners: the agent of each device.
    """
    found = (w for w in waits.values() if w.reason is WaitReason.DRAINING)
    return sum(owners.get(w.device or "") == agent_id for w in found)
