"""Reading of flat results: the same as contracts have, for tables of very many.

They are read from their columns. Whatever there is damaged or unusual is read, and reported, as all
other commands read it.
"""

from __future__ import annotations

import logging
import os
import sqlite3
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from itertools import chain, islice, pairwise
from pathlib import Path
from threading import Lock
from typing import Final

from controller.contracts.device import DeviceKind
from controller.contracts.flat_result import FlatResult
from controller.contracts.outcome_filter import OutcomeFilter, PageRequest
from controller.contracts.result import Validity
from controller.contracts.shown_names import ShownNames
from controller.platform.garbage import no_collections
from controller.store.naming import names_now, with_names
from controller.store.paging import RESULT, PageReader, measured_by_key
from controller.store.plain_results import FoundByNumber, Numbers, plain_results
from controller.store.rows import result_of
from controller.store.second_reader import SecondReader, second_reader
from controller.store.snapshot import Measured

READ_AT_ONCE: Final = 2000
"""Results of a batch."""
BATCHES_AT_ONCE: Final = 5
"""Batches whose results are found at once."""
ALONE: Final = 1
"""Batches that are read before a second reader is started, which takes as long as two do."""
OWN_SHARE: Final = 0.4
"""Of a batch, what the first reader reads: it also takes over and makes use of what both read."""
_VALIDITIES: Final = frozenset(validity.value for validity in Validity)
_KINDS: Final = frozenset(kind.value for kind in DeviceKind)
log = logging.getLogger(__name__)


class FlatReader(PageReader):
    """Reads flat results."""

    def __init__(self, path: Path, tell: Callable[[str], None] = log.error) -> None:
        super().__init__(path, tell)
        self._second = Lock()
        """Held by the export that has a second reader: the others leave the rest of the cores."""

    def flat_batches(
        self, wanted: OutcomeFilter, at_once: int = READ_AT_ONCE
    ) -> Iterator[Sequence[FlatResult]]:
        """Yield the results that a filter keeps, some at a time, in the order of storing.

        Each batch is read when it is asked for; of many, a second process reads a part of each.
        Raises StoreDamaged if an index is damaged, since then no batch is known to be whole.
        """
        batches = self._batches_of_numbers(wanted, at_once)
        for numbers in islice(batches, ALONE):
            yield self._batch(numbers, self._plain(numbers))
        if first := next(batches, ()):
            with self._second_reader() as second:
                yield from self._by_two(second, chain([first], batches, [()]))

    def _by_two(
        self, second: SecondReader | None, batches: Iterator[Numbers]
    ) -> Iterator[Sequence[FlatResult]]:
        """Yield batches, of which the last is empty; while one is made use of, the second reads."""
        others: Numbers = ()
        for numbers, following in pairwise(batches):
            plain = self._plain(numbers[: len(numbers) - len(others)])
            if second:
                plain |= second.answer() if others else {}
                others = following[round(OWN_SHARE * len(following)) :]
                others = others if others and second.ask(others, self._names()) else ()
            yield self._batch(numbers, plain)

    def _plain(self, numbers: Numbers) -> FoundByNumber:
        with self._snapshot() as (_, connection):
            driver = connection.connection.dbapi_connection
            assert isinstance(driver, sqlite3.Connection)
            return plain_results(driver, numbers, names_now(connection))

    def _names(self) -> ShownNames:
        with self._snapshot() as (_, connection):
            return names_now(connection)

    def _batches_of_numbers(self, wanted: OutcomeFilter, at_once: int) -> Iterator[Numbers]:
        asked: PageRequest | None = PageRequest(size=BATCHES_AT_ONCE * at_once)
        while asked is not None:
            with self._snapshot() as (snapshot, connection), no_collections():
                places = self._places(RESULT, snapshot, connection, wanted, asked)
            numbers = [place.number for place in places[: asked.size]]
            for start in range(0, len(numbers), at_once):
                yield numbers[start : start + at_once]
            more = len(places) > asked.size
            asked = PageRequest(size=asked.size, after=places[asked.size - 1]) if more else None

    def _batch(self, numbers: Numbers, plain: FoundByNumber) -> Sequence[FlatResult]:
        """Return the results of some numbers, of which those that are not plain are yet to read."""
        others = [number for number in numbers if not _is_understood(plain.get(number))]
        if not others:
            return [plain[number] for number in numbers]
        with self._snapshot() as (snapshot, connection):
            rows = measured_by_key(RESULT, snapshot, connection, others)
            rows = with_names(rows, snapshot, connection)
        found = plain | dict(self._made(rows, _numbered, "the result of run", "run_id"))
        return [found[number] for number in numbers if number in found]

    @contextmanager
    def _second_reader(self) -> Iterator[SecondReader | None]:
        """Start a second reader, if there is a core for it, and it can be started."""
        if len(os.sched_getaffinity(0)) == 1 or not self._second.acquire(blocking=False):
            yield None
            return
        with ExitStack() as stack:
            stack.callback(self._second.release)
            second = None
            try:
                second = stack.enter_context(second_reader(self._path))
            except OSError as error:  # such as too many processes
                log.warning("no second reader of an export can be started: %s", error.strerror)
            yield second


def _is_understood(result: FlatResult | None) -> bool:
    return result is not None and result.validity in _VALIDITIES and result.device_kind in _KINDS


def _numbered(row: Measured) -> tuple[int, FlatResult]:
    return row[0]["number"], FlatResult.of(result_of(row))
