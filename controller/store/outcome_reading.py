"""Reading of results and failures: all, a sweep's, or those that a filter keeps."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import TypeVar

from sqlalchemy import Connection, Select, func, null, or_, select

from controller.contracts.errors import StoreDamaged
from controller.contracts.outcome_filter import CellFilter, OutcomeFilter
from controller.contracts.records import OutcomeOrigin, StoredFailure, StoredResult
from controller.contracts.sweep import PairedCandidate, Side
from controller.store import tables
from controller.store.naming import with_names
from controller.store.rows import failure_of, result_of
from controller.store.scanning import Row
from controller.store.snapshot import Measured, Snapshot
from controller.store.sound_reader import SoundReader

Outcome = TypeVar("Outcome", bound=OutcomeOrigin)
Found = tuple[list[Measured], int]
"""Rows of outcomes by age, and how many there are with those that were not read."""


class OutcomeReader(SoundReader):
    """Reads results and failures."""

    def results(self, sweep_id: str | None = None) -> list[StoredResult]:
        """Return counted results, oldest first, then the late ones (`counted` false)."""
        return sorted(self._by_age(sweep_id), key=lambda result: not result.counted)

    def failures(self, sweep_id: str | None = None) -> list[StoredFailure]:
        """Return every failed attempt's failure, oldest first."""
        rows = self._outcomes("failure", sweep_id)
        return self._made(rows, failure_of, "the failure of run", "run_id")

    def selected_results(
        self, wanted: OutcomeFilter, newest: int | None = None
    ) -> tuple[list[StoredResult], int]:
        """Return the newest results that a filter keeps, in the order of `results`; and how many
        it keeps.

        newest: at most so many; None for all.
        """
        kept, count = self._selected("result", wanted, newest, self._by_age, result_of)
        return sorted(kept, key=lambda result: not result.counted), count

    def selected_failures(
        self, wanted: OutcomeFilter, newest: int | None = None
    ) -> tuple[list[StoredFailure], int]:
        """Return the newest failures that a filter keeps, oldest first; and how many it keeps."""
        return self._selected("failure", wanted, newest, self.failures, failure_of)

    def _by_age(self, sweep_id: str | None = None) -> list[StoredResult]:
        rows = self._outcomes("result", sweep_id)
        return self._made(rows, result_of, "the result of run", "run_id")

    def _selected(
        self,
        kind: str,
        wanted: OutcomeFilter,
        newest: int | None,
        every: Callable[[], list[Outcome]],
        make: Callable[[Measured], Outcome],
    ) -> tuple[list[Outcome], int]:
        """every: reads all by age, where an index or a record can't be trusted."""
        before = len(self._told)
        try:
            rows, count = self._rows_of(kind, wanted, newest)
            found = self._made(rows, make, f"the {kind} of run", "run_id")
            whole = len(found) == min(count, newest or count)
            if whole and len(self._told) == before:
                return found, count
        except StoreDamaged:
            pass  # what can be read is read, and reported, below
        kept = [one for one in every() if wanted.keeps(one)]
        return kept[-newest:] if newest else kept, len(kept)

    def _rows_of(self, kind: str, wanted: OutcomeFilter, newest: int | None) -> Found:
        with self._snapshot() as (snapshot, connection):
            snapshot.count_outcomes()
            tagged = tagged_sweeps(snapshot, wanted) if wanted.tags else None
            kept = numbers_of(connection, kind, wanted, tagged)
            count = connection.scalar(select(func.count()).select_from(kept.subquery()))
            by_age = kept.order_by(None).order_by(tables.outcomes.c.number.desc()).limit(newest)
            numbers = connection.scalars(by_age).all()[::-1]
            found = snapshot.outcomes(kind, numbers=numbers) if numbers else []
            return with_names(found, snapshot, connection), count or 0

    def _outcomes(self, kind: str, sweep_id: str | None) -> list[Measured]:
        with self._snapshot() as (snapshot, connection):
            ids = None if sweep_id is None else snapshot.ids_of(sweep_id)
            return with_names(snapshot.outcomes(kind, ids), snapshot, connection)


def tagged_sweeps(snapshot: Snapshot, wanted: OutcomeFilter) -> list[str]:
    """Return the ids of the sweeps that have all tags of a filter."""
    rows = snapshot.annotations()
    return [row["sweep_id"] for row in rows if wanted.tags.issubset(row["tags"])]


def numbers_of(
    connection: Connection, kind: str, wanted: OutcomeFilter, tagged: list[str] | None
) -> Select[int]:
    """Return the query for the numbers of the outcomes that a filter keeps, by age.

    tagged: the sweeps that have the filter's tags; None if it has none.
    """
    outcomes, runs = tables.outcomes, tables.runs
    query = select(outcomes.c.number).where(outcomes.c.type == kind).order_by(outcomes.c.number)
    equal = {"device_id": wanted.device, "validity": wanted.validity}
    for name, value in equal.items():
        query = query if value is None else query.where(outcomes.c[name] == value)
    if wanted.since is not None:
        query = query.where(outcomes.c.started_at >= wanted.since)
    if wanted.until is not None:
        query = query.where(outcomes.c.started_at < wanted.until)
    if wanted.sweep_id is not None or tagged is not None or not wanted.cell.keeps_all:
        query = query.join(runs, runs.c.run_id == outcomes.c.run_id)
    if wanted.sweep_id is not None:
        query = query.where(runs.c.sweep_id == wanted.sweep_id)
    if tagged is not None:
        sweeps = func.json_each(json.dumps(tagged)).table_valued("value")
        query = query.where(runs.c.sweep_id.in_(select(sweeps.c.value)))
    if wanted.virtual is not None:
        attempts = tables.attempts
        tried = (attempts.c.run_id == outcomes.c.run_id) & (attempts.c.number == outcomes.c.attempt)
        query = query.join(attempts, tried).where(attempts.c.virtual.is_(wanted.virtual))
    if not wanted.cell.keeps_all:
        found = json.dumps(keys_of_cells(connection, wanted.cell))
        keys = func.json_each(found).table_valued("value")
        query = query.where(runs.c.cell_key.in_(select(keys.c.value)))
    return query


def keys_of_cells(connection: Connection, wanted: CellFilter) -> list[str]:
    """Return the keys of the cells that a filter keeps."""
    cells = tables.cells.c
    query = select(tables.cells)
    for column, value in ((cells.workload, wanted.workload), (cells.scenario, wanted.scenario)):
        query = query if value is None else query.where(column == value)
    if wanted.stack is not None:  # of either side
        query = query.where(or_(cells.stack == wanted.stack, cells.versus.is_not(null())))
    rows = [dict(row) for row in connection.execute(query).mappings()]
    return [row["cell_key"] for row in rows if _keeps(wanted, row)]


def _keeps(wanted: CellFilter, row: Row) -> bool:
    try:
        side = Side(stack=row["stack"], knobs=row["knobs"])
        versus = row["versus"] and PairedCandidate.model_validate(row["versus"])
    except (ValueError, TypeError):
        return True  # a damaged cell: whether its outcomes are read is decided by their checksums
    return wanted.keeps(row["workload"], row["scenario"], side, versus)
