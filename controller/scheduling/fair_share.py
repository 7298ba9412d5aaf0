"""Which run is next: first by priority of the sweep, then by fair share of device time. Pure."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from heapq import heappop, heappush
from itertools import islice

from controller.contracts.records import ADMIN, Spent, SweepRecord
from controller.contracts.run import Run

HALF_LIFE_S = 3600.0
"""Device time spent this long ago counts half, so that yesterday's sweep costs nothing today."""
REMEMBERED_S = 10 * HALF_LIFE_S
"""Device time older than this counts less than a thousandth, and is not read."""
GRANT_S = 60.0
"""Least seconds that a lease counts for each of its devices, so that devices that become free
together are shared."""
Place = tuple[int, ...]
"""A run's place in the queue; lower ones go first."""


@dataclass(frozen=True, slots=True)
class Claim:
    """The owner and the priority of a sweep."""

    user: str = ADMIN
    priority: int = 0

    @classmethod
    def of(cls, record: SweepRecord) -> Claim:
        """Return the claim of a sweep."""
        return cls(record.user, record.sweep.priority or 0)


@dataclass(frozen=True, slots=True)
class Claims:
    """The inputs of the fair share."""

    of_sweep: Mapping[str, Claim] = field(default_factory=dict)
    spent_s: Mapping[str, float] = field(default_factory=dict)
    """User → recent device seconds, as `Shares` counts them."""
    reserved_for: Mapping[str, str | None] = field(default_factory=dict)
    """Booked device → the user who may run on it; None: nobody."""

    def of(self, run: Run) -> Claim:
        """Return the claim of a run's sweep."""
        return self.of_sweep.get(run.sweep_id, Claim())

    def admits(self, run: Run, device_id: str) -> bool:
        """Return whether bookings let a run on a device."""
        return (
            device_id not in self.reserved_for or self.reserved_for[device_id] == self.of(run).user
        )


Line = tuple[Claim, Iterable[tuple[Place, Run]]]
"""Runs of one claim, in queue order: if the first gets no device, no other of them does."""


class FairShare:
    """Queued runs in the order of fair shares; counts each granted lease."""

    def __init__(
        self,
        lines: Iterable[tuple[Claim, Iterable[tuple[Place, Run]]]],
        spent_s: Mapping[str, float],
    ) -> None:
        """spent_s: as in Claims."""
        self._spent = defaultdict(float, spent_s)
        self._lines = [(claim, iter(runs)) for claim, runs in lines]
        self._firsts: dict[Claim, list[tuple[Place, int, Run]]] = defaultdict(list)
        """Claim → the heap of the first runs of its lines, with the numbers of the lines."""
        self._left: int | None = None
        """The line whose first run has been taken, and that has not moved up."""
        self._user = ADMIN
        for number in range(len(self._lines)):
            self._move_up(number)

    def take(self) -> Run | None:
        """Return the next run: highest priority first, then the user with the least device time."""
        if self._left is not None:
            self._move_up(self._left)
        waiting = [claim for claim, firsts in self._firsts.items() if firsts]
        if not waiting:
            return None
        first = min(
            waiting, key=lambda c: (-c.priority, self._spent[c.user], self._firsts[c][0][0])
        )
        _, self._left, run = heappop(self._firsts[first])
        self._user = first.user
        return run

    def granted(self, devices: int = 1) -> None:
        """Count the lease of the run that was taken last."""
        self._spent[self._user] += GRANT_S * devices

    def close(self) -> None:
        """Leave out what is behind the run that was taken last, in its line."""
        self._left = None

    def _move_up(self, number: int) -> None:
        self._left = None
        claim, runs = self._lines[number]
        for place, run in islice(runs, 1):
            heappush(self._firsts[claim], (place, number, run))


class Shares:
    """Recent device time of each user, decayed; times are of a monotonic clock."""

    def __init__(self, spent: Iterable[Spent]) -> None:
        self._spent: dict[str, tuple[float, float]] = {}
        """User → (seconds, time of the last update)."""
        for each in spent:
            self.add(each)

    def add(self, spent: Spent) -> None:
        """Count an ended attempt."""
        at = max(spent.ended_at, self._spent.get(spent.user, (0.0, spent.ended_at))[1])
        self._spent[spent.user] = (self.of(spent.user, at) + spent.seconds, at)

    def of(self, user: str, now: float) -> float:
        """Return a user's device seconds, decayed to now."""
        seconds, at = self._spent.get(user, (0.0, now))
        return float(seconds * 0.5 ** (max(0.0, now - at) / HALF_LIFE_S))

    def now(self, now: float, leased: Iterable[tuple[str, float, int]]) -> dict[str, float]:
        """Return the device seconds of all users; leased: user, beginning and number of devices of
        each current lease."""
        counted = defaultdict(float, {user: self.of(user, now) for user in self._spent})
        for user, since, devices in leased:
            counted[user] += max(GRANT_S, now - since) * devices
        return counted
