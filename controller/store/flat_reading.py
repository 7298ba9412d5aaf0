"""Reading of flat results: the same as contracts have, for tables of very many.

They are read from their columns. Whatever there is damaged or unusual is read, and reported, as all
other commands read it.
"""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterator, Sequence
from typing import Final

from sqlalchemy import Connection

from controller.contracts.flat_result import FlatResult
from controller.contracts.outcome_filter import OutcomeFilter, PageRequest
from controller.platform.garbage import no_collections
from controller.store.flattening import MEASUREMENTS, OUTCOMES, flat_results, metrics_by_number
from controller.store.naming import names_now, with_names
from controller.store.paging import RESULT, PageReader, measured_by_key
from controller.store.rows import result_of
from controller.store.snapshot import Measured

READ_AT_ONCE: Final = 2000
"""Results of a batch."""


class FlatReader(PageReader):
    """Reads flat results."""

    def flat_batches(self, wanted: OutcomeFilter) -> Iterator[Sequence[FlatResult]]:
        """Yield the results that a filter keeps, some at a time, in the order of storing.

        Each batch is read when it is asked for. Raises StoreDamaged if an index is damaged, since
        then no batch is known to be whole.
        """
        return (results for results, _ in self._flat_pages(wanted))

    def _flat_pages(self, wanted: OutcomeFilter) -> Iterator[tuple[list[FlatResult], int]]:
        """Yield batches, each with the number of damaged results that belong to it."""
        asked: PageRequest | None = PageRequest(size=READ_AT_ONCE)
        while asked is not None:
            with self._snapshot() as (snapshot, connection):
                places = self._places(snapshot, connection, wanted, asked)
                numbers = [place.number for place in places[: asked.size]]
                found = _flat_results(connection, numbers)
                others = [number for number in numbers if number not in found]
                rows = measured_by_key(RESULT, snapshot, connection, others)
                rows = with_names(rows, snapshot, connection)
            found |= self._made(rows, _numbered, "the result of run", "run_id")
            results = [found[number] for number in numbers if number in found]
            yield results, len(numbers) - len(results)
            more = len(places) > asked.size
            asked = PageRequest(size=asked.size, after=places[asked.size - 1]) if more else None


def _flat_results(connection: Connection, numbers: Sequence[int]) -> dict[int, FlatResult]:
    """Return those of some results that are sound and usual, by number."""
    driver, shown = connection.connection.dbapi_connection, names_now(connection)
    assert isinstance(driver, sqlite3.Connection)
    if not all(map(_are_texts, shown.of_sweeps.values())):
        return {}
    asked = (json.dumps(numbers),)
    try:
        with no_collections():
            metrics = metrics_by_number(driver.execute(MEASUREMENTS, asked).fetchall())
            rows = driver.execute(OUTCOMES, asked).fetchall()
            if len({row[1] for row in rows}) < len(rows):
                return {}  # a record that is there twice counts once
            return flat_results(rows, metrics, shown)
    except (sqlite3.Error, MemoryError, UnicodeDecodeError):
        return {}  # read anew, and then it is told


def _are_texts(tags: Sequence[object]) -> bool:
    return isinstance(tags, list) and all(isinstance(tag, str) for tag in tags)


def _numbered(row: Measured) -> tuple[int, FlatResult]:
    return row[0]["number"], FlatResult.of(result_of(row))
