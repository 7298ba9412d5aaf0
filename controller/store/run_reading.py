"""Reading of runs: all of a sweep or of the store, one, or a page of the queue."""

from __future__ import annotations

import json
from collections.abc import Container, Iterable, Iterator, Mapping

from sqlalchemy import Connection, Select, func, select, tuple_

from controller.contracts.errors import StoreDamaged
from controller.contracts.run import Run, RunState
from controller.store import tables
from controller.store.live import LiveReader
from controller.store.outcome_reading import keys_of_cells
from controller.store.packing import counted, unpack
from controller.store.places import RunFilter, RunPlace
from controller.store.rows import run_of
from controller.store.scanning import Only, Row
from controller.store.snapshot import Snapshot

# A damaged state is neither: such a run is read with the open ones, and reported.
_OPEN = Only("state", [state.value for state in RunState if state.terminal], none_of=True)

PlacedRun = tuple[RunPlace, Run]


class RunReader(LiveReader):
    """Reads runs."""

    def runs(self, sweep_id: str | None = None, *, open_only: bool = False) -> list[Run]:
        """Return runs in queue order (submission, then position); all, or those not terminal."""
        of_sweep = None if sweep_id is None else Only("sweep_id", [sweep_id])
        with self._snapshot() as (snapshot, _):
            found = snapshot.runs(_OPEN if open_only and not of_sweep else of_sweep)
            packed, places = snapshot.unleased(of_sweep), snapshot.places
        if open_only:
            packed = [row for row in packed if counted(row)[RunState.QUEUED] or not counted(row)]
        runs = self._made(found, run_of, "run", "run_id")
        runs += self._unpacked(packed, {run.run_id for run in runs})
        runs.sort(key=lambda run: (places[run.sweep_id], run.position))
        return [run for run in runs if not (open_only and run.state.terminal)]

    def stored_runs(self, sweep_id: str | None = None) -> int:
        """Return how many runs a sweep, or all, were given; damaged and lost ones among them.

        A damaged sweep does not tell: its rows are counted.
        """
        of = tables.runs.c.sweep_id
        with self._snapshot() as (snapshot, connection):
            rows = connection.execute(select(of, func.count()).group_by(of)).all()
            given = {str(sweep): count for sweep, count in rows}
            given |= {row["sweep_id"]: row["runs"] for row in snapshot.sweeps()}
        return sum(given.values()) if sweep_id is None else given.get(sweep_id, 0)

    def stored_sweeps(self) -> int:
        """Return how many sweeps are stored, damaged ones among them."""
        with self._snapshot() as (_, connection):
            return connection.scalar(select(func.count()).select_from(tables.sweeps)) or 0

    def run(self, run_id: str) -> Run | None:
        """Return one run, or None if there is no such run."""
        with self._snapshot() as (snapshot, _):
            found = snapshot.run(run_id)
            packed = [] if found else snapshot.unleased()
        runs = self._made([found] if found else [], run_of, "run", "run_id")
        runs += (run for run in self._unpacked(packed, ()) if run.run_id == run_id)
        return next(iter(runs), None)

    def queue_part(self, wanted: RunFilter, after: RunPlace | None, most: int) -> list[PlacedRun]:
        """Return the first runs that a filter keeps behind a place of the queue, with their places.

        most: at most so many.
        """
        before = len(self._told)
        try:
            found = self._part_by_keys(wanted, after, most)
            if found is not None and len(self._told) == before:
                return found
        except StoreDamaged:
            pass  # what can be read is read, and reported, below
        with self._snapshot() as (snapshot, _):
            numbers = _numbers(snapshot)
        kept = filter(wanted.keeps, self.runs(wanted.sweep_id, open_only=wanted.open_only))
        placed = [(_place(numbers, run), run) for run in kept if run.sweep_id in numbers]
        behind = [one for one in placed if after is None or one[0] > after]
        return sorted(behind, key=_by_place)[:most]

    def _part_by_keys(
        self, wanted: RunFilter, after: RunPlace | None, most: int
    ) -> list[PlacedRun] | None:
        """Return what `queue_part` does; None if a run cannot be read."""
        with self._snapshot() as (snapshot, connection):
            numbers = {
                sweep_id: number
                for sweep_id, number in _numbers(snapshot).items()
                if wanted.sweep_id in (None, sweep_id) and (after is None or number >= after.sweep)
            }
            query = _queued(connection, [*numbers], wanted, after).limit(most)
            places = [*map(RunPlace._make, connection.execute(query))]
            tried = snapshot.runs_by_key(Only("run_id", [place.run_id for place in places]))
            runs = {run.run_id: run for run in self._made(tried, run_of, "run", "run_id")}
            if len(runs) < len(places):
                return None
            found = [(place, runs[place.run_id]) for place in places]
            end = places[-1].sweep if len(places) == most else None
            for placed in self._packed_parts(snapshot, connection, numbers, runs, end):
                found += (
                    one
                    for one in placed
                    if wanted.keeps(one[1]) and (after is None or one[0] > after)
                )
                if len(found) - len(places) >= most:
                    break
        return sorted(found, key=_by_place)[:most]

    def _packed_parts(
        self,
        snapshot: Snapshot,
        connection: Connection,
        numbers: Mapping[str, int],
        with_rows: Container[str],
        end: int | None,
    ) -> Iterator[list[PlacedRun]]:
        """Yield the never leased runs of each sweep in the order of submission, to the sweep with a
        number."""
        packed = {*connection.scalars(select(tables.unleased.c.sweep_id).distinct())}
        for sweep_id, number in numbers.items():
            if end is not None and number > end:
                return
            if sweep_id in packed:
                rows = snapshot.packed(Only("sweep_id", [sweep_id]), keyed=True)
                unpacked = self._unpacked(rows, with_rows)
                yield [(_place(numbers, run), run) for run in unpacked]

    def _unpacked(self, packed: Iterable[Row], with_rows: Container[str]) -> Iterator[Run]:
        """Yield the packed runs that have no rows."""
        for runs in self._made(packed, unpack, "the never leased runs of sweep", "sweep_id"):
            for run in runs:
                if run.run_id in with_rows:
                    self._note(f"run {run.run_id}", "it is there twice, in two states")
                else:
                    yield run


def _queued(
    connection: Connection, sweep_ids: list[str], wanted: RunFilter, after: RunPlace | None
) -> Select[int, int, str]:
    """Return the query for the places of the runs with rows that a filter keeps, in their order.

    sweep_ids: the sweeps that they may be of.
    """
    runs, sweeps = tables.runs.c, tables.sweeps.c
    place = (sweeps.number, runs.position, runs.run_id)
    query = (
        select(*place)
        .join_from(tables.sweeps, tables.runs, runs.sweep_id == sweeps.sweep_id)
        .where(runs.sweep_id.in_(_listed(sweep_ids)), runs.state.in_(wanted.states))
        .order_by(*place)
    )
    if not wanted.cell.keeps_all:
        query = query.where(runs.cell_key.in_(_listed(keys_of_cells(connection, wanted.cell))))
    return query if after is None else query.where(tuple_(*place) > tuple_(*after))


def _listed(values: list[str]) -> Select[str]:
    listed = func.json_each(json.dumps(values)).table_valued("value")
    return select(listed.c.value)


def _numbers(snapshot: Snapshot) -> dict[str, int]:
    """Return the number of each sound sweep, oldest first."""
    return {row["sweep_id"]: row["number"] for row in snapshot.sweeps()}


def _place(numbers: Mapping[str, int], run: Run) -> RunPlace:
    return RunPlace(numbers[run.sweep_id], run.position, run.run_id)


def _by_place(one: PlacedRun) -> RunPlace:
    return one[0]
