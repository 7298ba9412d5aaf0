"""Sweeps: the list, and one of them while it is under way."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from controller.api import reads
from controller.api.queries import NoQuery, ResultQuery, SweepQuery
from controller.api.reads import Reading
from controller.contracts.outcome_filter import OutcomeFilter
from controller.contracts.records import StoredFailure, StoredResult, SweepRecord, SweepTally
from controller.contracts.run import Run, RunState
from controller.page.fleet import FRESH_S, fleet_now
from controller.page.kept import Kept, marker_of
from controller.runtime.health import why_away

SHOWN: Final = 20
"""Failures and results that a sweep's page shows, the newest."""


@dataclass(frozen=True, slots=True)
class Progress:
    """How far a sweep is."""

    tally: SweepTally

    @property
    def runs(self) -> int:
        """All runs."""
        return sum(self.tally.runs.values())

    @property
    def ended(self) -> int:
        """Those that have ended, however."""
        return sum(count for state, count in self.tally.runs.items() if state.terminal)

    @property
    def open(self) -> int:
        """Those that have not ended."""
        return self.runs - self.ended

    @property
    def states(self) -> Sequence[tuple[RunState, int]]:
        """The states that runs are in, with their numbers."""
        return [(state, count) for state, count in self.tally.runs.items() if count]

    @property
    def words(self) -> str:
        """The numbers as text."""
        said = ", ".join(f"{count} {state}" for state, count in self.states) or "no run"
        lost = f", {self.tally.lost} damaged" if self.tally.lost else ""
        return f"{said}{lost}"


@dataclass(frozen=True, slots=True)
class ListedSweep:
    """A sweep in a list."""

    record: SweepRecord
    progress: Progress
    tags: Sequence[str]


@dataclass(frozen=True, slots=True)
class SweepPage:
    """A page of the list of sweeps."""

    sweeps: Sequence[ListedSweep]
    next: str | None
    """The cursor of the page that follows."""


@dataclass(frozen=True, slots=True)
class SweepNow:
    """A sweep as it is now."""

    record: SweepRecord
    progress: Progress
    tags: Sequence[str]
    notes: Sequence[str]
    away: str
    """Why the farm can't answer; empty if it can."""
    running: Sequence[Run]
    again: Sequence[Run]
    """Runs that were leased before and are queued again."""
    devices: Mapping[str, str]
    """Id → name for people."""
    failures: Sequence[StoredFailure]
    """The newest, the newest first."""
    results: Sequence[StoredResult]
    """The same; without samples."""


def sweep_page(farm: Reading, asked: SweepQuery) -> SweepPage:
    """Return a page of sweeps, each with how far it is."""
    found = reads.sweeps(farm, asked, {})
    words = farm.store.annotations()
    listed = [
        ListedSweep(
            record,
            Progress(farm.store.tally(record.sweep_id)),
            words[record.sweep_id].tags if record.sweep_id in words else (),
        )
        for record in found.items
    ]
    return SweepPage(listed, found.next)


def sweep_now(farm: Reading, kept: Kept, sweep_id: str) -> SweepNow:
    """Return a sweep as it is now; raises NotFound, StoreDamaged."""
    marker = marker_of(farm.home.store), why_away(farm.home)
    return kept.get(("sweep", sweep_id), marker, FRESH_S, lambda: _sweep(farm, kept, sweep_id))


def _sweep(farm: Reading, kept: Kept, sweep_id: str) -> SweepNow:
    detail = reads.sweep(farm, NoQuery(), {"sweep_id": sweep_id})
    fleet = fleet_now(farm, kept)
    own = [run for run in fleet.begun if run.sweep_id == sweep_id]
    newest = ResultQuery(sweep=sweep_id, sort="-stored", limit=SHOWN)
    return SweepNow(
        record=detail.record,
        progress=Progress(detail.tally),
        tags=detail.tags,
        notes=[note.line for note in detail.notes],
        away=fleet.away,
        running=[run for run in own if run.lease],
        again=[run for run in own if not run.lease],
        devices={device.device.id: device.name for device in fleet.devices},
        failures=farm.store.newest_failures(OutcomeFilter(sweep_id=sweep_id), SHOWN),
        results=reads.results(farm, newest, {}).items,
    )
