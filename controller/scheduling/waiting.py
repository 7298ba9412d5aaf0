"""Why each open run waits, and when it will most likely start. Pure: the rules are placement's."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from heapq import heapify, heapreplace
from typing import Final

from controller.contracts.base import utc_minute
from controller.contracts.catalog import Catalog
from controller.contracts.device import Device, DeviceState, RegisteredDevice, shown_names
from controller.contracts.device_names import Names
from controller.contracts.run import Run
from controller.contracts.sweep import Cell
from controller.contracts.waiting import Waiting, WaitingRuns, WaitReason
from controller.scheduling.device_life import booking_at, idle_status, is_probed, may_run
from controller.scheduling.fair_share import Claims, FairShare
from controller.scheduling.hosts import hosts_of, like_hosts, too_few_hosts
from controller.scheduling.placement import (
    NO_CLAIMS,
    Takers,
    cores_in_use,
    has_cores,
    objections,
    place,
)
from controller.scheduling.queued import QueuedRuns, asked
from controller.scheduling.selector import device_named

Expected = Callable[[Cell, Device], float | None]
"""Seconds that a cell takes on a device; None if unknown."""
SHOWN: Final = 5
"""Excluded devices that a sentence names."""
_IN_USE: Final = (
    *(WaitReason.STARTS, WaitReason.BUSY, WaitReason.COOLING, WaitReason.LOCKED, WaitReason.CORES),
)
_SOONEST: Final = (
    *_IN_USE,
    WaitReason.RESERVED,
    WaitReason.MAINTENANCE,
    WaitReason.DRAINING,
    WaitReason.QUARANTINED,
    WaitReason.AWAY,
)


def unknown(_cell: Cell, _device: Device) -> float | None:
    """Return None: without history, no duration is known."""
    return None


@dataclass(frozen=True, slots=True)
class Queue:
    """The open runs and all that decides who is next."""

    now: float
    runs: Sequence[Run]
    """In queue order, leased ones too."""
    devices: Sequence[RegisteredDevice]
    claims: Claims = NO_CLAIMS
    withheld: Collection[str] = ()
    """Sweeps of which no run is leased now."""
    held_up: Mapping[str, str] = field(default_factory=dict)
    """Leased runs that a process of another farm holds up, by id, with what they wait for."""
    is_up: bool = True
    """Whether the farm is up; if not, nobody knows since when a device is away."""


def waiting(queue: Queue, catalog: Catalog, expected: Expected = unknown) -> dict[str, Waiting]:
    """Return what each run waits for: all queued ones, and leased ones whose device cools down or
    whose cores another farm holds."""
    told: dict[str, Waiting] = {}
    for run in queue.runs:
        if run.lease:
            found = _held(run, queue, run.lease.device_id)
            told |= {run.run_id: found} if found.reason is not WaitReason.BUSY else {}
        elif run.sweep_id in queue.withheld:
            told[run.run_id] = Waiting(reason=WaitReason.CHANGING)
    lines = _Lines(queue, catalog, expected)
    queued = [r for r in queue.runs if r.lease is None and r.sweep_id not in queue.withheld]
    for run, device in lines.placed(queued):
        begun = lines.begin(run, device)
        told.setdefault(run.run_id, begun)  # a run on several hosts is its lead's
    left = QueuedRuns.of((r for r in queued if r.run_id not in told), queue.claims.of_sweep)
    fair_share = FairShare(left.lines(), queue.claims.spent_s)
    while run_ := fair_share.take():
        fair_share.granted(hosts_of(run_.cell.knobs))
        told[run_.run_id] = lines.join(run_)
    names = shown_names(d.labelled for d in queue.devices)
    return {id_: _named(found, names) for id_, found in told.items()}


def _named(found: Waiting, names: Names) -> Waiting:
    name = names.get(found.device or "")
    return found if name is None else found.model_copy(update={"device_name": name})


def grouped(told: Mapping[str, Waiting], runs: Iterable[Run]) -> tuple[WaitingRuns, ...]:
    """Return what runs wait for, one entry for each reason and, if it is out of use, device."""
    groups: dict[tuple[object, ...], list[Waiting]] = defaultdict(list)
    for run in runs:
        if found := told.get(run.run_id):
            place_ = None if found.reason in (*_IN_USE, WaitReason.TURN) else found.device
            groups[found.reason, place_, found.why].append(found)
    return tuple(_group(group) for group in groups.values())


def _group(group: Sequence[Waiting]) -> WaitingRuns:
    first = min(group, key=lambda found: (found.ahead, found.starts_at or 0.0))
    wait = "1 run waits" if len(group) == 1 else f"{len(group)} runs wait"
    return WaitingRuns(runs=len(group), first=first, said=f"{wait}: {first.words}")


def _held(holder: Run, queue: Queue, on: str) -> Waiting:
    """Return what a run waits for whose device another one, or itself, holds."""
    why = queue.held_up.get(holder.run_id, "")
    cools = holder.lease is not None and holder.lease.cooling
    reason = WaitReason.COOLING if cools else WaitReason.LOCKED if why else WaitReason.BUSY
    return _on(reason, holder, queue, on, why)


def _on(reason: WaitReason, holder: Run, queue: Queue, device_id: str, why: str = "") -> Waiting:
    """Return what a run waits for because of another run, or of its own lease."""
    user = queue.claims.of(holder).user
    return Waiting(reason=reason, device=device_id, user=user, run_id=holder.run_id, why=why)


_Candidate = tuple[tuple[float, ...], int, Waiting]
"""A device that fits: its rank when it was last looked at, its place in order, and the wait."""


class _Lines:
    """The line of runs before each device, as it will most likely form."""

    def __init__(self, queue: Queue, catalog: Catalog, expected: Expected) -> None:
        self._queue = queue
        self._catalog = catalog
        self._expected = expected
        self._known = {d.device.id: d for d in queue.devices}
        self._labelled = [d.labelled for d in queue.devices]
        self._takers = Takers(self._labelled, catalog)
        self._hosts = {id_: d.agent_id for id_, d in self._known.items()}
        self._holders = {
            device_id: run
            for run in queue.runs
            if run.lease
            for device_id in run.lease.device_ids & self._known.keys()
        }
        self._lines: dict[str, list[Run]] = defaultdict(list)
        self._heaps: dict[tuple[str, ...], list[_Candidate]] = {}
        """User and requirements of a cell → the devices that fit."""
        self._excluded: dict[tuple[str, ...], str] = {}
        self._free_at: dict[str, float | None] = {
            id_: self._end(run.lease.leased_at, run, id_)
            for id_, run in self._holders.items()
            if run.lease
        }
        """When the line before each device that has one will most likely have ended."""

    def placed(self, queued: Sequence[Run]) -> list[tuple[Run, Device]]:
        """Return the runs that placement would lease now, with their devices."""
        free = [
            device
            for device in self._labelled
            if may_run(self._known[device.id]) and device.id not in self._holders
        ]
        cores, claims = self._cores(), self._queue.claims
        in_lines = QueuedRuns.of(queued, claims.of_sweep)
        return list(place(in_lines, free, cores, self._hosts, self._catalog, claims))

    def begin(self, run: Run, device: Device) -> Waiting:
        """Put a run on a free device."""
        now = self._queue.now
        self._holders[device.id] = run
        self._free_at[device.id] = self._end(now, run, device.id)
        return Waiting(reason=WaitReason.STARTS, device=device.id, starts_at=now)

    def join(self, run: Run) -> Waiting:
        """Add a run to the line before the device that it will most likely get."""
        user = self._queue.claims.of(run).user
        if hosts_of(run.cell.knobs) > 1:
            return self._join_on_hosts(run, user)
        among = self._candidates(user, run.cell)
        if not among:
            return self._nowhere(run.cell)
        while (now := self._rank(user, among[0][2])) != among[0][0]:
            heapreplace(among, (now, *among[0][1:]))  # a rank only grows
        found = self._behind(run, user, among[0][2])
        return found.model_copy(update={"more_devices": len(among) - 1})

    def _join_on_hosts(self, run: Run, user: str) -> Waiting:
        """Add a run to the line before the last one that is free of the hosts that it needs."""
        fitting = self._takers.of(run.cell)
        if not fitting:
            return self._nowhere(run.cell)
        if few := too_few_hosts(run.cell, fitting):
            return Waiting(reason=WaitReason.NO_MATCH, why=few)
        hosts, last = hosts_of(run.cell.knobs), []
        for group in like_hosts(fitting):
            found = [self._obstacle(user, self._known[device.id]) for device in group]
            found.sort(key=partial(self._rank, user))
            last += found[hosts - 1 : hosts]
        return self._behind(run, user, min(last, key=partial(self._rank, user)))

    def _candidates(self, user: str, cell: Cell) -> list[_Candidate]:
        """Return the heap of the devices that fit a cell, for a user."""
        key = (user, *asked(cell))
        if key not in self._heaps:
            self._heaps[key] = [
                (self._rank(user, found), number, found)
                for number, device in enumerate(self._takers.of(cell))
                for found in [self._obstacle(user, self._known[device.id])]
            ]
            heapify(self._heaps[key])
        return self._heaps[key]

    def _rank(self, user: str, found: Waiting) -> tuple[float, ...]:
        """Return what decides which device is soonest free; the lowest is."""
        starts_at, id_ = self._starts(user, found), str(found.device)
        known = (0.0, starts_at) if starts_at is not None else (1.0, float(len(self._lines[id_])))
        return (float(max(_SOONEST.index(found.reason), len(_IN_USE))), *known)

    def _behind(self, run: Run, user: str, found: Waiting) -> Waiting:
        """Return the wait of a run that joins the line before a device."""
        id_ = str(found.device)
        line, starts_at = self._lines[id_], self._starts(user, found)
        changed: dict[str, object] = {"starts_at": starts_at, "ahead": len(line)}
        if line and found.reason in _IN_USE:
            first = line[0]
            changed |= {
                "reason": WaitReason.TURN,
                "run_id": first.run_id,
                "user": self._queue.claims.of(first).user,
            }
        line.append(run)
        self._free_at[id_] = None if starts_at is None else self._end(starts_at, run, id_)
        return found.model_copy(update=changed)

    def _obstacle(self, user: str, known: RegisteredDevice) -> Waiting:
        """Return what keeps a user's runs from a device, in the order of a device's states."""
        id_, rest = known.device.id, idle_status(known, self._queue.now)
        if rest.state is DeviceState.QUARANTINED:
            until = known.life.probe_at if is_probed(known.life) else None
            return Waiting(
                reason=WaitReason.QUARANTINED, device=id_, until=until, why=rest.why, user=rest.who
            )
        if not may_run(known):
            since = f" since {utc_minute(rest.since)}" if self._queue.is_up else ""
            why = f"{rest.state}{since} ({rest.why})"
            return Waiting(reason=WaitReason.AWAY, device=id_, why=why)
        if drain := known.draining:
            said = {"since": drain.since, "user": drain.who, "why": drain.why}
            return Waiting(reason=WaitReason.DRAINING, device=id_, **said)
        booking = booking_at(known.life, self._queue.now)
        if booking and booking.user != user:
            reason = WaitReason.RESERVED if booking.user else WaitReason.MAINTENANCE
            return Waiting(
                reason=reason, device=id_, user=booking.user, until=booking.ends, why=booking.why
            )
        if holder := self._holders.get(id_):
            return _held(holder, self._queue, id_)
        return self._beside(known)

    def _beside(self, known: RegisteredDevice) -> Waiting:
        """Return the run on another device that uses a device's cores."""
        id_ = known.device.id
        for other, holder in self._holders.items():
            if not has_cores(known.device, cores_in_use([self._known[other]]), self._hosts):
                self._free_at.setdefault(id_, self._free_at.get(other))
                return _on(WaitReason.CORES, holder, self._queue, id_)
        return Waiting(reason=WaitReason.STARTS, device=id_)

    def _starts(self, user: str, found: Waiting) -> float | None:
        """Return when a device is free for a user after all who are in line; None if unknown."""
        if found.reason in (WaitReason.DRAINING, WaitReason.QUARANTINED, WaitReason.AWAY):
            return None
        at, known = self._free_at.get(str(found.device), self._queue.now), self._known
        while at is not None:
            booking = booking_at(known[str(found.device)].life, at)
            if booking is None or booking.user == user:
                return at
            at = booking.ends
        return None

    def _end(self, begins: float, run: Run, device_id: str) -> float | None:
        """Return when a run will most likely end; a run that is overdue ends now."""
        seconds = self._expected(run.cell, self._known[device_id].labelled)
        return None if seconds is None else max(begins + seconds, self._queue.now)

    def _nowhere(self, cell: Cell) -> Waiting:
        """Return the wait of a run that no device fits."""
        if not self._labelled:
            return Waiting(reason=WaitReason.NO_DEVICE)
        if (id_ := device_named(cell.selector)) and id_ not in self._known:
            return Waiting(reason=WaitReason.GONE, device=id_)
        if (asks := asked(cell)) not in self._excluded:
            shown = [
                f"{device.shown} is excluded by {', '.join(found)}"
                for device in self._labelled[:SHOWN]
                for found in [objections(cell, device, self._catalog)]
            ]
            left = len(self._labelled) - SHOWN
            self._excluded[asks] = "; ".join([*shown, *([f"and {left} more"] if left > 0 else [])])
        return Waiting(reason=WaitReason.NO_MATCH, why=self._excluded[asks])

    def _cores(self) -> dict[str, set[int]]:
        return cores_in_use(self._known[id_] for id_ in self._holders)
