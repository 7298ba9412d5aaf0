"""Expansion of a sweep's cells and repeats to runs. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import product

from controller.contracts.base import digest
from controller.contracts.run import Run, RunState
from controller.contracts.sweep import Cell


@dataclass(frozen=True, slots=True)
class Grid:
    """The runs of one submission as they were queued; gives each its id and position."""

    sweep_id: str
    cells: Sequence[Cell]
    repeats: int
    deadline_s: float
    created_at: float

    def runs(self) -> Iterator[Run]:
        """Yield the runs in queue order; repeats are interleaved so that drift affects all cells
        equally."""
        keyed = [(cell, cell.key) for cell in self.cells]
        for position, (repeat, (cell, key)) in enumerate(product(range(self.repeats), keyed)):
            yield Run(
                run_id=digest([self.sweep_id, key, repeat], 12),
                sweep_id=self.sweep_id,
                position=position,
                repeat=repeat,
                cell=cell,
                deadline_s=self.deadline_s,
                created_at=self.created_at,
                state=RunState.QUEUED,
            )
