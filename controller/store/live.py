"""Reading of what pages for people show now, at a cost that grows with what is shown.

Records are found by keys and checked by their checksums; where an index is damaged, the readers of
whole tables answer.
"""

from __future__ import annotations

from itertools import takewhile

from sqlalchemy import select

from controller.contracts.device import DeviceHistoryEntry
from controller.contracts.outcome_filter import Chosen, MeasuredKind, OutcomeFilter
from controller.contracts.records import StoredFailure, StoredResult
from controller.contracts.run import Run, RunState
from controller.store import tables
from controller.store.flat_reading import FlatReader
from controller.store.naming import with_names
from controller.store.outcome_keys import newest_of_cells, require_keys
from controller.store.outcome_reading import numbers_of, tagged_sweeps
from controller.store.packing import counted
from controller.store.paging import FAILURE, RESULT, measured_by_key
from controller.store.rows import attempt_event_of, event_of, failure_of, result_of, run_of
from controller.store.scanning import Only, Row
from controller.store.snapshot import Measured


class LiveReader(FlatReader):
    """Reads what is under way, one run's outcomes, and the newest failures and events."""

    def begun_runs(self) -> list[Run]:
        """Return the open runs that have been leased at least once, oldest first.

        Raises StoreDamaged if an index is damaged.
        """
        with self._snapshot() as (snapshot, _):
            found = snapshot.begun()
        runs = self._made(found, run_of, "run", "run_id")
        return sorted(runs, key=lambda run: (run.created_at, run.position))

    def never_leased(self) -> dict[str, int]:
        """Return how many queued runs of each sweep have never been leased, if it has any."""
        queued: dict[str, int] = {}
        with self._snapshot() as (snapshot, _):
            for row in snapshot.packed():
                if count := counted(row)[RunState.QUEUED]:
                    queued[row["sweep_id"]] = queued.get(row["sweep_id"], 0) + count
        return queued

    def outcomes_of(self, run_id: str) -> list[StoredResult | StoredFailure]:
        """Return the results and failures of a run, in the order of storing."""
        outcomes = tables.outcomes
        of_run = select(outcomes.c.number).where(outcomes.c.run_id == run_id)
        with self._snapshot() as (snapshot, connection):
            numbers = {
                kind: connection.scalars(of_run.where(outcomes.c.type == kind)).all()
                for kind in (RESULT, FAILURE)
            }
            rows = {
                kind: with_names(
                    measured_by_key(kind, snapshot, connection, of_kind), snapshot, connection
                )
                for kind, of_kind in numbers.items()
            }
        found: list[tuple[int, StoredResult | StoredFailure]] = [
            *self._made(rows[RESULT], _numbered_result, "the result of run", "run_id"),
            *self._made(rows[FAILURE], _numbered_failure, "the failure of run", "run_id"),
        ]
        return [outcome for _, outcome in sorted(found, key=lambda one: one[0])]

    def newest_failures(self, wanted: OutcomeFilter, newest: int) -> list[StoredFailure]:
        """Return the newest failures that a filter keeps, the newest first.

        Raises StoreDamaged if an index is damaged.
        """
        with self._snapshot() as (snapshot, connection):
            tagged = tagged_sweeps(snapshot, wanted) if wanted.tags else None
            query = numbers_of(connection, FAILURE, wanted, tagged).order_by(None)
            query = query.order_by(tables.outcomes.c.number.desc()).limit(newest)
            numbers = connection.scalars(query).all()
            found = measured_by_key(FAILURE, snapshot, connection, numbers)
            rows = with_names(found, snapshot, connection)
        return self._made(rows, failure_of, "the failure of run", "run_id")[::-1]

    def newest_of_cells(
        self, chosen: Chosen, repeats: int, most: int
    ) -> tuple[list[StoredResult], bool]:
        """Return the newest counted results of each chosen cell on each device, oldest first; and
        whether there are more.

        repeats: so many of each; most: of all together. Raises StoreDamaged if an index is damaged.
        """
        rows, more = self._newest_of_cells(RESULT, chosen, repeats, most)
        return self._made(rows, result_of, "the result of run", "run_id"), more

    def newest_failures_of_cells(
        self, chosen: Chosen, repeats: int, most: int
    ) -> tuple[list[StoredFailure], bool]:
        """Return what `newest_of_cells` does, of failures that count."""
        rows, more = self._newest_of_cells(FAILURE, chosen, repeats, most)
        return self._made(rows, failure_of, "the failure of run", "run_id"), more

    def _newest_of_cells(
        self, kind: str, chosen: Chosen, repeats: int, most: int
    ) -> tuple[list[Measured], bool]:
        with self._snapshot() as (snapshot, connection):
            require_keys(connection, str(self._path))
            query = newest_of_cells(kind, chosen, repeats).limit(most + 1)
            numbers = connection.scalars(query).all()
            found = measured_by_key(kind, snapshot, connection, numbers[:most])
            return with_names(found, snapshot, connection), len(numbers) > most

    def measured_kinds(self) -> list[MeasuredKind]:
        """Return what any cell ever asked for, sorted."""
        cells = tables.cells.c
        query = select(cells.workload, cells.stack, cells.scenario).distinct()
        with self._snapshot() as (_, connection):
            found = [row for row in connection.execute(query) if all(map(_is_text, row))]
        return [MeasuredKind(*row) for row in sorted(map(tuple, found))]

    def runs_beginning(self, text: str, most: int) -> list[str]:
        """Return the ids of leased runs that begin with a text, sorted."""
        run_id = tables.runs.c.run_id
        query = select(run_id).where(run_id >= text, run_id < f"{text}\U0010ffff")
        with self._snapshot() as (_, connection):
            found = connection.scalars(query.order_by(run_id).limit(most)).all()
        return [id_ for id_ in found if _is_text(id_)]

    def recent_history(
        self, device_id: str, newest: int, before: float | None = None
    ) -> list[DeviceHistoryEntry]:
        """Return the newest entries of a device's history, the newest first.

        newest: so many, and those of the same moment as the last. before: seconds since the epoch;
        only those before then. Raises StoreDamaged if an index is damaged.
        """
        events, attempts = tables.device_events, tables.attempts
        told = select(events.c.number).where(events.c.device_id == device_id)
        tried = select(attempts.c.run_id).where(attempts.c.device_id == device_id)
        if before is not None:
            told = told.where(events.c.at < before)
            tried = tried.where(attempts.c.leased_at < before)
        told = told.order_by(events.c.at.desc(), events.c.number.desc()).limit(newest)
        tried = tried.order_by(attempts.c.leased_at.desc()).limit(newest)
        with self._snapshot() as (snapshot, connection):
            numbers = Only("number", [*connection.scalars(told)])
            runs = Only("run_id", [*connection.scalars(tried)])
            said = snapshot.records(events, "an event of device", "device_id", numbers, keyed=True)
            rows = snapshot.records(attempts, "an attempt of run", "run_id", runs, keyed=True)
        own = [row for row in rows if _is_of(row, device_id, before)]
        found = self._made(said, event_of, "an event of device", "device_id")
        found += self._made(own, attempt_event_of, "an attempt of run", "run_id")
        found.sort(key=lambda entry: entry.at, reverse=True)
        # Entries of the same moment are not parted: what follows is asked for by the last one's.
        same = takewhile(lambda entry: entry.at == found[newest - 1].at, found[newest:])
        return [*found[:newest], *same]


def _is_text(value: object) -> bool:
    return isinstance(value, str)  # of a damaged cell, it may be anything


def _is_of(row: Row, device_id: str, before: float | None) -> bool:
    earlier = before is None or row["leased_at"] < before
    return bool(row["device_id"] == device_id and earlier)


def _numbered_result(row: Measured) -> tuple[int, StoredResult]:
    return row[0]["number"], result_of(row)


def _numbered_failure(row: Measured) -> tuple[int, StoredFailure]:
    return row[0]["number"], failure_of(row)
