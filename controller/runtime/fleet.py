"""The current fleet for people: as stored, but offline while the farm is down."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterable, Mapping
from types import MappingProxyType
from typing import TypeAlias

from controller.contracts.base import Contract, Timestamp
from controller.contracts.device import (
    CONTROLLER,
    Booking,
    Device,
    DeviceState,
    DeviceStatus,
    Hold,
    RegisteredAgent,
    RegisteredDevice,
    shown_names,
)
from controller.contracts.farm_now import FarmNow
from controller.contracts.run import Run
from controller.contracts.waiting import Waiting, WaitReason
from controller.runtime.health import why_away
from controller.runtime.home import Home
from controller.scheduling.clocks import OFF_S
from controller.scheduling.device_life import current, device_status
from controller.store.protocol import FarmReader

NOTHING_WAITS: Mapping[str, Waiting] = MappingProxyType({})
Where: TypeAlias = Home | FarmNow
"""A farm: its home, or what the farm of another host says of itself."""


class DeviceOverview(Contract):
    """A device with its agent, its status and its run."""

    device: Device
    name: str
    """Its name for people."""
    agent_id: str
    state: DeviceState
    since: Timestamp
    who: str
    why: str
    run_id: str | None
    """The run it is busy with or cools down for."""
    clock_ahead_s: float | None = None
    """Seconds that its host's clock is ahead of the controller's, if measured."""
    queued: int = 0
    """Queued runs that will most likely go to it."""
    locked: str = ""
    """What its run waits for if a process of another farm holds a core that it measures on."""
    bookings: tuple[Booking, ...] = ()
    """Bookings that have not ended, sorted by their beginning."""
    draining: Hold | None = None
    """Set if its agent is drained, so that it takes no new runs."""


def away_of(farm: Where) -> str:
    """Return why a farm cannot answer now; "" if it can, as far as is known."""
    return why_away(farm) if isinstance(farm, Home) else farm.away


def is_up(farm: Where) -> bool:
    """Return whether the farm is up, so that the store says since when a device is away."""
    return not away_of(farm)


def agents_now(farm: Where, store: FarmReader) -> list[RegisteredAgent]:
    """Return all agents; none is online while the farm is down."""
    agents, _ = store.fleet()
    if not away_of(farm):
        return agents
    return [known.model_copy(update={"online": False}) for known in agents]


def registered_now(farm: Where, store: FarmReader) -> list[RegisteredDevice]:
    """Return all devices; none is online while the farm is down."""
    away = away_of(farm)
    _, devices = store.fleet()
    return [_away(device, away) for device in devices] if away else devices


def devices_now(
    farm: Where,
    store: FarmReader,
    runs: Iterable[Run],
    waits: Mapping[str, Waiting] = NOTHING_WAITS,
) -> list[DeviceOverview]:
    """Return all devices with their current state.

    runs: the open ones; waits: what each of them waits for.
    """
    now = time.time()
    agents, _ = store.fleet()
    ahead = {known.agent.id: known.clock_ahead_s for known in agents}
    leases = {id_: run for run in runs if run.lease for id_ in run.lease.device_ids}
    queued = Counter(found.device for id_, found in waits.items() if found.run_id != id_)
    registered = registered_now(farm, store)
    names = shown_names(d.labelled for d in registered)
    found = [
        _status(
            *(d, names[d.device.id], now, leases.get(d.device.id)),
            *(ahead.get(d.agent_id), queued[d.device.id]),
        )
        for d in registered
    ]
    return [each.model_copy(update={"locked": _locked(each.run_id, waits)}) for each in found]


def _locked(run_id: str | None, waits: Mapping[str, Waiting]) -> str:
    found = waits.get(run_id) if run_id else None
    return found.why if found and found.reason is WaitReason.LOCKED else ""


def agent_state(known: RegisteredAgent, runs: Iterable[Run]) -> str:
    """Return an agent's state in a word; runs: the open ones."""
    if known.revoked or not known.online:
        return "revoked" if known.revoked else "lost"
    if known.draining is None:
        return "online"
    holds = any(run.lease and run.lease.place_of(known.agent.id) for run in runs)
    return "draining" if holds else "drained"


def wrong_clocks(agents: Iterable[RegisteredAgent]) -> list[str]:
    """Return a line for each online agent whose clock is far off."""
    return [
        f"the clock of agent {known.agent.id} on host {known.agent.host} is "
        f"{abs(ahead_s):.1f} s {'ahead of' if ahead_s > 0 else 'behind'} the controller's; "
        "set it or run NTP; times of its results are corrected by this difference"
        for known in agents
        if known.online and (ahead_s := known.clock_ahead_s or 0.0) and abs(ahead_s) > OFF_S
    ]


def _status(
    device: RegisteredDevice,
    name: str,
    now: float,
    run: Run | None,
    clock_ahead_s: float | None,
    queued: int,
) -> DeviceOverview:
    stands = device_status(device, now, run)
    has_run = stands.state in (DeviceState.BUSY, DeviceState.COOLING)
    return DeviceOverview(
        device=device.labelled,
        name=name,
        agent_id=device.agent_id,
        **dict(stands),
        run_id=run.run_id if run and has_run else None,
        clock_ahead_s=clock_ahead_s,
        queued=queued,
        bookings=current(device.life, now).bookings,
        draining=device.draining,
    )


def _away(device: RegisteredDevice, why: str) -> RegisteredDevice:
    down = DeviceStatus(state=DeviceState.LOST, since=device.since, who=CONTROLLER, why=why)
    life = device.life.model_copy(update={"away": device.life.away or down})
    return device.model_copy(update={"online": False, "life": life})
