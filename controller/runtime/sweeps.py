"""The steps of users' requests about sweeps: to submit, watch, cancel, resume.

`desk` runs them in their order, the slow ones without blocking the event loop.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Final

from controller.contracts.administration import SweepStatus
from controller.contracts.base import digest
from controller.contracts.catalog import Catalog
from controller.contracts.device import Device
from controller.contracts.errors import NotAllowed, NotFound, StoreDamaged, UserError
from controller.contracts.quota import Quota
from controller.contracts.records import ADMIN, SweepRecord
from controller.contracts.run import Run, RunState
from controller.contracts.sweep import Cell, Sweep
from controller.contracts.waiting import WaitingRuns
from controller.contracts.wire import Submission
from controller.runtime.annotator import Annotator
from controller.runtime.clock import Clock
from controller.runtime.open_runs import Changed, OpenRuns
from controller.runtime.roster import Roster
from controller.runtime.shared_waits import SharedWaits
from controller.scheduling.binding import Out, awaited, left_out, place_cells, runs_of
from controller.scheduling.expansion import cells_of
from controller.scheduling.lifecycle import Cancelled, Resumed
from controller.scheduling.limits import most_cells, require_within_limits
from controller.scheduling.quota import DAY_S, Ledger, require_bytes, require_room, size_of
from controller.scheduling.references import SweepReferent, find_sweep
from controller.store.protocol import Store

RESUMABLE = (RunState.FAILED, RunState.CANCELLED)
BATCH: Final = 25
"""Runs that are changed at once."""
MAX_ATTEMPTS: Final = 100
"""A run with this many attempts is not resumed: its record would only grow."""


def never_leased(runs: Iterable[Run]) -> list[Run]:
    """Return those of some runs that have had no attempt."""
    return [run for run in runs if not run.attempts]


@dataclass(frozen=True, slots=True)
class Expansion:
    """A sweep and the fleet to place it on; may be called in any thread."""

    sweep: Sweep
    devices: Sequence[Device]
    out: Out
    catalog: Catalog

    def __call__(self) -> list[Cell]:
        """Return the sweep's cells; raises SweepInvalid, NoMatchingDevice."""
        cells = cells_of(self.sweep, self.catalog, self.sweep.name)
        return place_cells(self.sweep, cells, self.devices, self.catalog, self.out)


class Sweeps:
    """The sweeps of one farm."""

    def __init__(
        self,
        store: Store,
        catalog: Catalog,
        roster: Roster,
        runs: OpenRuns,
        clock: Clock,
        quota: Quota,
        max_attempts: int = MAX_ATTEMPTS,
    ) -> None:
        self._store = store
        self._catalog = catalog
        self._roster = roster
        self._runs = runs
        self._clock = clock
        self._quota = quota
        self._max_attempts = max_attempts
        self._waits = SharedWaits(runs, catalog, clock)
        self.annotator = Annotator(store, clock)
        self._ledger = Ledger()
        self._generations: defaultdict[str, dict[int, str]] = defaultdict(dict)
        """The user of each generation of a sweep, by the digest of the sweep's content."""
        self._taken: set[str] = set()
        """The ids of sweeps that are being stored."""
        self._referents: dict[str, SweepReferent] = {}
        for record in store.sweeps():
            self._referents[record.sweep_id] = SweepReferent.of(record)
            self._generations[_identity(record.sweep)][record.generation] = record.user
            if record.submitted_at > clock.wall() - DAY_S:
                at = clock.steady_at(record.submitted_at)
                self._ledger.add(record.user, _least_size(record.sweep), at)

    # --- the steps of a submission -------------------------------------------------------------

    def expansion(self, sweep: Sweep, user: str) -> Expansion:
        """Return the expansion of a sweep on the current fleet; raises NotAllowed."""
        _check_priority(sweep, user)
        return Expansion(sweep, self._roster.placeable(), self._roster.out(), self._catalog)

    def known(self, sweep: Sweep, user: str, *, again: bool) -> Submission | None:
        """Return the user's earlier submission of a sweep, if it needs no new choice of devices.

        Raises SweepInvalid if the sweep exceeds the limits.
        """
        require_within_limits(sweep, sweep.name)
        mine = self._mine(sweep, user)
        if again or not mine or not isinstance(sweep.run_on, int):
            return None
        sweep_id = sweep.sweep_id(max(mine))  # its devices were chosen then; others may be there
        return Submission(
            sweep_id=sweep_id,
            new_runs=0,
            known_runs=self._stored_runs(sweep_id),
            ended_runs=self._ended_runs(sweep_id),
        )

    def record(self, sweep: Sweep, user: str, *, again: bool) -> SweepRecord:
        """Return the record to store for a sweep."""
        mine = self._mine(sweep, user)
        newest = max(self._generations[_identity(sweep)], default=0)
        generation = max(mine) if mine and not again else newest + 1
        while generation not in mine and self._is_taken(sweep.sweep_id(generation)):
            generation += 1  # another sweep of the same name has that id
        return SweepRecord(
            sweep_id=sweep.sweep_id(generation),
            sweep=sweep,
            generation=generation,
            submitted_at=self._clock.wall(),
            user=user,
        )

    @contextmanager
    def taken(self, record: SweepRecord) -> Iterator[None]:
        """Reserve a sweep's id while the sweep is being stored."""
        self._taken.add(record.sweep_id)
        try:
            yield
        finally:
            self._taken.remove(record.sweep_id)

    def new_runs(self, record: SweepRecord, cells: Sequence[Cell]) -> int:
        """Return how many runs `keep` would add; may be called in any thread.

        On a fleet that has changed since, a sweep for each device has other cells than before.
        """
        known = {run.run_id for run in self._store.runs(record.sweep_id)}
        if not known:
            return len(cells) * record.sweep.repeats
        runs = runs_of(record.sweep, record.sweep_id, cells, record.submitted_at)
        return sum(run.run_id not in known for run in runs)

    def require_quota(self, record: SweepRecord, cells: Sequence[Cell], new_runs: int) -> None:
        """Raise OverQuota if a sweep's new runs are too many for its user, or too large."""
        sweep, user, tried = record.sweep, record.user, f"submit sweep {record.sweep.name}"
        require_room(user, tried, self._runs.of_user(user), cells, new_runs, self._quota)
        more = size_of(sweep, cells, new_runs) if new_runs else 0
        kept = self._ledger.of(user, self._clock.steady())
        require_bytes(user, tried, kept, more, self._quota)

    def keep(self, record: SweepRecord, cells: Sequence[Cell]) -> list[Run]:
        """Store a sweep; return its new runs; may be called in any thread."""
        runs = runs_of(record.sweep, record.sweep_id, cells, record.submitted_at)
        self._runs.require_unlike(runs)
        return self._store.add_sweep(record, runs)

    def queue(self, record: SweepRecord, cells: Sequence[Cell], new: Sequence[Run]) -> Submission:
        """Queue the new runs of a stored sweep."""
        sweep, user = record.sweep, record.user
        self._generations[_identity(sweep)][record.generation] = user
        self._referents.setdefault(record.sweep_id, SweepReferent.of(record))
        if new:
            size = size_of(sweep, cells, len(new))
            self._ledger.add(user, size, self._clock.steady())
        self._runs.add(record, new)
        self._runs.place()
        known, out = len(cells) * sweep.repeats - len(new), self._roster.out()
        devices = self._roster.placeable()
        return Submission(
            sweep_id=record.sweep_id,
            new_runs=len(new),
            known_runs=known,
            ended_runs=self._ended_runs(record.sweep_id) if known else 0,
            left_out=tuple(left_out(sweep, cells, out, self._catalog)),
            awaited=tuple(awaited(sweep, cells, devices, out, self._catalog)),
        )

    # --- stored sweeps -------------------------------------------------------------------------

    def find(self, given: str, user: str = ADMIN) -> str:
        """Return the id of the sweep that a user means; raises NotFound, UserError."""
        if self._runs.user_of(given) is not None:
            return given
        return find_sweep(given, self._referents.values(), user).id

    def require(self, sweep_id: str, user: str = ADMIN) -> None:
        """Raise NotFound if there is no such sweep, NotAllowed if it is another user's."""
        self._owner(sweep_id, user)

    def sweep_status(self, sweep_id: str, user: str = ADMIN) -> SweepStatus:
        """Return the status of a sweep; raises NotFound, NotAllowed."""
        owner = self._owner(sweep_id, user)
        tally = self._store.tally(sweep_id)
        return SweepStatus(
            sweep_id=sweep_id,
            user=owner,
            runs={state.value: runs for state, runs in tally.runs.items()},
            all_met_rules=tally.met_rules == sum(tally.runs.values()) + tally.lost,
        )

    def waits(self, sweep_id: str) -> Callable[[], tuple[WaitingRuns, ...]]:
        """Return what works out the waits of a sweep's runs; may be called in any thread."""
        return self._waits.of(sweep_id)

    # --- the steps of cancelling and resuming --------------------------------------------------

    @contextmanager
    def withheld(self, sweep_id: str, user: str) -> Iterator[None]:
        """Lease no run of a sweep in this context; raises NotFound, NotAllowed."""
        self.require(sweep_id, user)
        with self._runs.withheld(sweep_id):
            yield
        self._runs.place()

    def waiting(self, sweep_id: str) -> list[Run]:
        """Return the open runs of a sweep that were never leased."""
        return never_leased(run for run in self._runs if run.sweep_id == sweep_id)

    def changed(self, runs: Sequence[Run], event: Cancelled | Resumed) -> list[Changed]:
        """Store the changes of never leased runs at once; may be called in any thread."""
        self._runs.require_unlike(runs)
        changed = self._runs.changes((run, event) for run in runs)
        try:
            self._runs.keep(changed)
        except StoreDamaged:
            return []  # left to be changed batch by batch, which finds those that can be kept
        return changed

    def telling(self, changed: Sequence[Changed]) -> Iterator[int]:
        """Apply stored changes batch by batch; yield the size of each batch."""
        for start in range(0, len(changed), BATCH):
            batch = changed[start : start + BATCH]
            self._runs.take_over(batch)
            yield len(batch)

    def cancelling(self, sweep_id: str) -> Iterator[int]:
        """Cancel the other open runs of a sweep batch by batch; yield the size of each batch."""
        # Runs under way come last, so that their devices take no run that is about to be cancelled.
        doomed = sorted((r for r in self._runs if r.sweep_id == sweep_id), key=_is_leased)
        for start in range(0, len(doomed), BATCH):
            batch = (self._runs.open(r.run_id) for r in doomed[start : start + BATCH])
            ended = [run for run in batch if run]
            self._runs.apply((run, Cancelled()) for run in ended)
            yield len(ended)

    def require_kept(self, sweep_id: str) -> None:
        """Raise UserError if the store could not keep the cancellation of some runs."""
        if aside := len(self._runs.set_aside(sweep_id)):
            seen = f"the store is damaged where {aside} of its runs are kept"
            remedy = "Run `benchfarm store check`."
            raise UserError(f"cancel all of sweep {sweep_id}", seen, remedy)

    def resumable(self, sweep_id: str) -> list[Run]:
        """Return the runs that can be queued again; may be called in any thread, one at a time."""
        self._runs.told_late.clear()
        ended = (run for run in self._store.runs(sweep_id) if run.state in RESUMABLE)
        return [run for run in ended if len(run.attempts) < self._max_attempts]

    def require_room(self, sweep_id: str, ended: Sequence[Run], user: str) -> None:
        """Raise OverQuota if a user had too many runs with these queued again."""
        owner = self._owner(sweep_id, user)
        tried = f"resume sweep {sweep_id}"
        cells = [run.cell for run in ended]
        require_room(user, tried, self._runs.of_user(owner), cells, len(ended), self._quota)

    def resuming(self, ended: Sequence[Run], changed: Sequence[Changed]) -> Iterator[int]:
        """Queue the other runs again batch by batch; yield the size of each batch."""
        done = {run.run_id for run, _ in changed}
        others = [run for run in ended if run.run_id not in done]
        for start in range(0, len(others), BATCH):
            batch = [self._as_it_is(run) for run in others[start : start + BATCH]]
            self._runs.apply((run, Resumed()) for run in batch)
            yield len(batch)

    # --- helpers -------------------------------------------------------------------------------

    def _as_it_is(self, run: Run) -> Run:
        """Return the current state of an ended run, which a late outcome may have changed."""
        if run.run_id in self._runs.told_late:
            return self._runs.get(run.run_id) or run
        return run

    def _is_taken(self, sweep_id: str) -> bool:
        return sweep_id in self._taken or self._runs.user_of(sweep_id) is not None

    def _mine(self, sweep: Sweep, user: str) -> list[int]:
        known = self._generations[_identity(sweep)].items()
        return [generation for generation, owner in known if owner == user]

    def _stored_runs(self, sweep_id: str) -> int:
        return sum(self._store.tally(sweep_id).runs.values())

    def _ended_runs(self, sweep_id: str) -> int:
        runs = self._store.tally(sweep_id).runs
        return sum(runs.get(state, 0) for state in RESUMABLE)

    def _owner(self, sweep_id: str, user: str) -> str:
        owner = self._runs.user_of(sweep_id)
        tried = f"find sweep {sweep_id[:200]}"
        if owner is None:
            remedy = "Run `benchfarm sweep status` to see all sweeps."
            raise NotFound(tried, "there is no such sweep", remedy)
        if user not in (ADMIN, owner):
            raise NotAllowed(tried, "it is another user's", "Ask that user or the administrator.")
        return owner


def _identity(sweep: Sweep) -> str:
    return digest(sweep.model_dump(mode="json", exclude_none=True), 64)


def _least_size(sweep: Sweep) -> int:
    """Return the least size of a sweep in the store, whose cells are no longer known."""
    return size_of(sweep, (), most_cells(sweep) * sweep.repeats)


def _is_leased(run: Run) -> bool:
    return run.lease is not None


def _check_priority(sweep: Sweep, user: str) -> None:
    if user != ADMIN and (sweep.priority or 0) > 0:
        raise NotAllowed(
            f"submit sweep {sweep.name} with priority {sweep.priority}",
            "only the administrator may set one above 0",
            "Leave it out, or set one from -100 to 0.",
        )
