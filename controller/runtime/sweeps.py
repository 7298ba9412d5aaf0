"""What users say of sweeps: submit, watch, cancel, resume."""

from __future__ import annotations

from collections.abc import Callable

from controller.contracts.administration import SweepStanding
from controller.contracts.catalog import Catalog
from controller.contracts.errors import NotAllowed, NotFound
from controller.contracts.records import ADMIN, SweepRecord
from controller.contracts.run import RunState
from controller.contracts.sweep import Sweep
from controller.contracts.wire import Submission
from controller.runtime.open_runs import OpenRuns
from controller.runtime.roster import Roster
from controller.scheduling.binding import place_cells, runs_of
from controller.scheduling.expansion import cells_of
from controller.scheduling.lifecycle import Cancelled, Resumed
from controller.store.protocol import Store

RESUMABLE = (RunState.FAILED, RunState.CANCELLED)


class Sweeps:
    """Of one farm."""

    def __init__(
        self,
        store: Store,
        catalog: Catalog,
        roster: Roster,
        runs: OpenRuns,
        clock: Callable[[], float],
    ) -> None:
        self._store = store
        self._catalog = catalog
        self._roster = roster
        self._runs = runs
        self._clock = clock

    def submit(self, sweep: Sweep, *, user: str = ADMIN, again: bool = False) -> Submission:
        """Queue a sweep's runs; those it already has are left alone.

        again: submit as a new generation, measured anew; so is what another user submitted. Raises
        SweepInvalid, NoMatchingDevice, NotAllowed.
        """
        _check_priority(sweep, user)
        now = self._clock()
        cells = cells_of(sweep, self._catalog, sweep.name)
        same = [r for r in self._store.sweeps() if r.sweep == sweep]
        mine = [r.generation for r in same if r.user == user]
        if mine and not again and isinstance(sweep.run_on, int):
            # Its devices were chosen then; others may be there now.
            sweep_id = sweep.sweep_id(max(mine))
            known = len(self._store.runs(sweep_id))
            return Submission(sweep_id=sweep_id, new_runs=0, known_runs=known)
        roster = self._roster
        bound = place_cells(sweep, cells, roster.placeable(), self._catalog, roster.out())
        newest = max((r.generation for r in same), default=0)
        generation = max(mine) if mine and not again else newest + 1
        sweep_id = sweep.sweep_id(generation)
        runs = runs_of(sweep, sweep_id, bound, now)
        record = SweepRecord(
            sweep_id=sweep_id, sweep=sweep, generation=generation, submitted_at=now, user=user
        )
        new = self._runs.add(record, runs)
        self._runs.place()
        known = len(runs) - len(new)
        return Submission(sweep_id=sweep_id, new_runs=len(new), known_runs=known)

    def require(self, sweep_id: str, user: str = ADMIN) -> None:
        """Raise NotFound if there is no such sweep, NotAllowed if it is another user's."""
        self._owner(sweep_id, user)

    def standing(self, sweep_id: str, user: str = ADMIN) -> SweepStanding:
        """Return how a sweep stands; raises NotFound, NotAllowed."""
        owner = self._owner(sweep_id, user)
        tally = self._store.tally(sweep_id)
        return SweepStanding(
            sweep_id=sweep_id,
            user=owner,
            runs={state.value: runs for state, runs in tally.runs.items()},
            all_valid=tally.valid == sum(tally.runs.values()),
        )

    def cancel(self, sweep_id: str, user: str = ADMIN) -> int:
        """Cancel a sweep's open runs; return how many. Raises NotFound, NotAllowed."""
        self.require(sweep_id, user)
        doomed = [run for run in self._runs if run.sweep_id == sweep_id]
        self._runs.apply((run, Cancelled()) for run in doomed)
        self._runs.place()
        return len(doomed)

    def resume(self, sweep_id: str, user: str = ADMIN) -> int:
        """Queue a sweep's failed and cancelled runs again; return how many.

        Raises NotFound, NotAllowed.
        """
        self.require(sweep_id, user)
        ended = [r for r in self._store.runs(sweep_id) if r.state in RESUMABLE]
        self._runs.apply((run, Resumed()) for run in ended)
        self._runs.place()
        return len(ended)

    def _owner(self, sweep_id: str, user: str) -> str:
        owner = self._runs.user_of(sweep_id)
        tried = f"looking for sweep {sweep_id[:200]}"
        if owner is None:
            raise NotFound(tried, "there is no such sweep", "see: benchfarm sweep status")
        if user not in (ADMIN, owner):
            raise NotAllowed(tried, "it is another user's", "ask that user, or the administrator")
        return owner


def _check_priority(sweep: Sweep, user: str) -> None:
    if user != ADMIN and (sweep.priority or 0) > 0:
        raise NotAllowed(
            f"submitting sweep {sweep.name} with priority {sweep.priority}",
            "above 0 is the administrator's",
            "leave it out, or give one from -100 to 0",
        )
