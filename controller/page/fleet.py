"""The fleet now: devices, agents, what is under way, and what runs wait for."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from controller.api.reads import Reading
from controller.contracts.catalog import load_catalog
from controller.contracts.device import RegisteredAgent
from controller.contracts.errors import UserError
from controller.contracts.run import Run
from controller.contracts.waiting import Waiting, WaitingRuns
from controller.page.kept import Kept, marker_of
from controller.runtime.fleet import DeviceOverview, agent_state, agents_now, devices_now
from controller.runtime.health import why_away
from controller.runtime.waiting import waiting_now
from controller.scheduling.waiting import grouped

FRESH_S: Final = 1.0
"""For so long what is shown stands if the store has not changed: ages of bookings end by time."""
WAITS_S: Final = 10.0
"""For so long what runs wait for stands: all attempts are read for it."""
WAITS_REST: Final = 20.0
"""So many times as long as that took, it stands at least."""
MOST_QUEUED: Final = 5000
"""With more queued runs, what they wait for is not worked out for a page."""


@dataclass(frozen=True, slots=True)
class FleetNow:
    """A farm and what runs on it."""

    away: str
    """Why the farm can't answer; empty if it can."""
    devices: Sequence[DeviceOverview]
    agents: Sequence[tuple[RegisteredAgent, str]]
    """With their states."""
    begun: Sequence[Run]
    """Open runs that have been leased at least once."""
    queued: int
    users: dict[str, str]
    """Sweep → user."""

    @property
    def running(self) -> Sequence[Run]:
        """The leased runs."""
        return [run for run in self.begun if run.lease]

    @property
    def states(self) -> Counter[str]:
        """How many devices are in each state."""
        return Counter(device.state.value for device in self.devices)


@dataclass(frozen=True, slots=True)
class QueueNow:
    """What queued runs wait for."""

    groups: Sequence[WaitingRuns]
    unknown: str = ""
    """Why that is not told; empty if it is."""


def fleet_now(farm: Reading, kept: Kept) -> FleetNow:
    """Return the fleet as it is now; raises StoreDamaged."""
    marker = marker_of(farm.home.store), why_away(farm.home)
    return kept.get("fleet", marker, FRESH_S, lambda: _fleet(farm))


def _fleet(farm: Reading) -> FleetNow:
    begun = farm.store.begun_runs()
    queued = sum(farm.store.never_leased().values()) + sum(run.lease is None for run in begun)
    agents = agents_now(farm.home, farm.store)
    return FleetNow(
        away=why_away(farm.home),
        devices=devices_now(farm.home, farm.store, begun),
        agents=[(known, agent_state(known, begun)) for known in agents],
        begun=begun,
        queued=queued,
        users={record.sweep_id: record.user for record in farm.store.sweeps()},
    )


def queue_now(farm: Reading, kept: Kept, sweep_id: str | None = None) -> QueueNow:
    """Return what the queued runs of a sweep, or of all, wait for; raises StoreDamaged."""
    if not fleet_now(farm, kept).queued:
        return QueueNow(())
    # All waits are worked out at once, for all viewers; a sweep's are those among them.
    shared = kept.get("queue", None, WAITS_S, lambda: _queue(farm, kept), WAITS_REST)
    if isinstance(shared, str):
        return QueueNow((), shared)
    runs, waits = shared
    own = [run for run in runs if run.lease is None and sweep_id in (None, run.sweep_id)]
    groups = sorted(grouped(waits, own), key=lambda group: -group.runs)
    return QueueNow(groups)


def _queue(farm: Reading, kept: Kept) -> tuple[Sequence[Run], Mapping[str, Waiting]] | str:
    queued = fleet_now(farm, kept).queued
    if queued > MOST_QUEUED:
        return f"{queued} runs are queued, too many to work out here: `benchfarm status` tells"
    runs = farm.store.runs(open_only=True)
    try:
        return runs, waiting_now(farm.home, farm.store, runs, load_catalog)
    except UserError as fault:  # a manifest is broken
        return f"cannot {fault.tried}: {fault.seen}"
