"""Which run is next: first by priority of the sweep, then by fair share of device time. Pure."""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from controller.contracts.records import ADMIN, Spent, SweepRecord
from controller.contracts.run import Run

HALF_LIFE_S = 3600.0
"""Device time spent this long ago counts half, so that yesterday's sweep costs nothing today."""
REMEMBERED_S = 10 * HALF_LIFE_S
"""Device time older than this counts less than a thousandth, and is not read."""
GRANT_S = 60.0
"""Least seconds that a lease counts, so that devices that become free together are shared."""


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


class FairShare:
    """Queued runs in the order of fair shares; counts each granted lease."""

    def __init__(self, queued: Iterable[Run], claims: Claims) -> None:
        """queued: in queue order, which is kept within one user and priority."""
        self._claims = claims
        self._spent = defaultdict(float, claims.spent_s)
        self._lines: dict[Claim, deque[tuple[int, Run]]] = defaultdict(deque)
        for position, run in enumerate(queued):
            self._lines[claims.of(run)].append((position, run))

    def take(self) -> Run | None:
        """Return the next run: highest priority first, then the user with the least device time."""
        waiting = [claim for claim, line in self._lines.items() if line]
        if not waiting:
            return None
        first = min(waiting, key=lambda c: (-c.priority, self._spent[c.user], self._lines[c][0][0]))
        return self._lines[first].popleft()[1]

    def granted(self, run: Run) -> None:
        """Count a lease for the run's user."""
        self._spent[self._claims.of(run).user] += GRANT_S


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

    def now(self, now: float, leased: Iterable[tuple[str, float]]) -> dict[str, float]:
        """Return the device seconds of all users; leased: user and beginning of each current
        lease."""
        counted = defaultdict(float, {user: self.of(user, now) for user in self._spent})
        for user, since in leased:
            counted[user] += max(GRANT_S, now - since)
        return counted
