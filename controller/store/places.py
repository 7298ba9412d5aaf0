"""Places in lists that are read page by page, and which runs such a list has. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from controller.contracts.outcome_filter import CellFilter
from controller.contracts.run import Run, RunState
from controller.contracts.sweep import Side


class RunPlace(NamedTuple):
    """Where a run stands in the queue."""

    sweep: int
    """Number of its sweep in the order of submission."""
    position: int
    run_id: str


class TryPlace(NamedTuple):
    """Where an attempt stands among those that have ended."""

    ended_at: float
    """Seconds since the epoch."""
    run_id: str
    attempt: int


class EntryPlace(NamedTuple):
    """Where an entry stands in the history of a device."""

    at: float
    """Seconds since the epoch."""
    run_id: str
    """Of an attempt; empty of an event, which comes before the attempts of its moment."""
    number: int
    """The attempt's, or the event's."""


@dataclass(frozen=True, slots=True)
class RunFilter:
    """Conditions on a run; None keeps everything."""

    cell: CellFilter
    sweep_id: str | None = None
    state: RunState | None = None
    open_only: bool = False
    """Whether it has not ended."""

    @property
    def states(self) -> list[RunState]:
        """The states that a run may be in."""
        kept = [state for state in RunState if self.state in (None, state)]
        return [state for state in kept if not (self.open_only and state.terminal)]

    def keeps(self, run: Run) -> bool:
        """Return whether a run fulfils all conditions."""
        cell = run.cell
        side = Side(stack=cell.stack, knobs=cell.knobs)
        return (
            self.sweep_id in (None, run.sweep_id)
            and run.state in self.states
            and self.cell.keeps(cell.workload, cell.scenario, side, cell.versus)
        )
