"""Queued runs in lines of like runs, so that placement looks at a few of many. Pure."""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Collection, Iterable, Iterator, Mapping
from operator import itemgetter
from typing import NamedTuple

from controller.contracts.manifests import PROVENANCE_KNOBS
from controller.contracts.run import Run
from controller.contracts.sweep import Cell
from controller.scheduling.fair_share import Claim, Line, Place
from controller.scheduling.hosts import hosts_of

_ORIGINS = tuple(PROVENANCE_KNOBS.values())


def asked(cell: Cell) -> tuple[str, ...]:
    """Return everything in a cell that `placement.objections` depends on."""
    sides = (cell, cell.versus) if cell.versus else (cell,)
    told = (
        text
        for side in sides
        for text in (side.stack, *(str(side.knobs.get(name, "")) for name in _ORIGINS))
    )
    return (cell.selector, cell.workload, cell.scenario, *told)


class Kind(NamedTuple):
    """What the runs of a line have in common: all that decides which devices they may get."""

    claim: Claim
    asked: tuple[str, ...]
    hosts: int


class QueuedRuns:
    """Queued runs, in lines; a run that comes or goes costs the same however many there are."""

    def __init__(self, claims: Mapping[str, Claim]) -> None:
        """claims: sweep → its claim; may grow."""
        self._claims = claims
        self._lines: dict[Kind, list[tuple[Place, Run]]] = {}
        self._where: dict[str, tuple[Kind, Place]] = {}

    def __len__(self) -> int:
        return len(self._where)

    @classmethod
    def of(cls, runs: Iterable[Run], claims: Mapping[str, Claim]) -> QueuedRuns:
        """Return runs that are given in queue order."""
        queued = cls(claims)
        queued.add(((number,), run) for number, run in enumerate(runs))
        return queued

    def add(self, runs: Iterable[tuple[Place, Run]]) -> None:
        """Add runs, or replace them."""
        asked_of: dict[int, tuple[Cell, tuple[str, ...]]] = {}
        for place, run in runs:
            self.discard(run.run_id)
            _, asks = asked_of.setdefault(id(run.cell), (run.cell, asked(run.cell)))
            claim = self._claims.get(run.sweep_id, Claim())
            kind = Kind(claim, asks, hosts_of(run.cell.knobs))
            insort(self._lines.setdefault(kind, []), (place, run), key=itemgetter(0))
            self._where[run.run_id] = kind, place

    def discard(self, run_id: str) -> None:
        """Take a run out, if it is there."""
        if run_id not in self._where:
            return
        kind, place = self._where.pop(run_id)
        runs = self._lines[kind]
        at = bisect_left(runs, place, key=itemgetter(0))
        del runs[next(n for n in range(at, len(runs)) if runs[n][1].run_id == run_id)]
        if not runs:
            del self._lines[kind]

    def lines(self, withheld: Collection[str] = ()) -> Iterator[Line]:
        """Return the lines, each in queue order, without the runs of withheld sweeps."""
        for kind, runs in self._lines.items():
            yield kind.claim, (one for one in runs if one[1].sweep_id not in withheld)
