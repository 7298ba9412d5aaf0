"""`benchfarm results export --format parquet`: the file that the head makes, on any host."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from tempfile import TemporaryFile
from typing import BinaryIO

from controller.api.reader import ApiReader
from controller.contracts.errors import StoreDamaged, UserError
from controller.contracts.flat_result import FlatResult
from controller.contracts.outcome_filter import OutcomeFilter
from controller.reports.arrow import parquet_pieces, results_in
from controller.store.protocol import FarmReader
from controller.store.reading import SqliteReader


@contextmanager
def table_file(store: FarmReader, wanted: OutcomeFilter) -> Iterator[tuple[BinaryIO, int]]:
    """Give a Parquet file of the results that a filter keeps, with samples, and their number.

    They come a thousand at a time, in the order of storing: from the store's file on the head, and
    elsewhere as the API sends what the head makes. Raises UserError, FarmUnavailable.
    """
    with TemporaryFile(prefix="benchfarm-results-") as file:
        if isinstance(store, SqliteReader):
            count = _made_here(store, wanted, file)
        else:
            count = _fetched(store, wanted, file)
        file.seek(0)
        yield file, count


def _made_here(store: SqliteReader, wanted: OutcomeFilter, file: BinaryIO) -> int:
    try:
        _fill(file, parquet_pieces(store.flat_batches(wanted)))
    except StoreDamaged:  # what can be read is read, and reported
        results = [FlatResult.of(one) for one in store.selected_results(wanted)[0]]
        _fill(file, parquet_pieces([results]))
    return results_in(file) or 0


def _fetched(store: FarmReader, wanted: OutcomeFilter, file: BinaryIO) -> int:
    assert isinstance(store, ApiReader), "the other reader of a farm"
    with store.table(wanted) as (total, pieces):
        _fill(file, pieces)
    try:
        count = results_in(file)
    except ValueError as error:
        raise store.stranger(str(error)) from error
    if count is None:  # of an earlier release
        return total
    store.note_left_out(total - count, "results")
    return count


def _fill(file: BinaryIO, pieces: Iterable[bytes]) -> None:
    """Make a file have some pieces and nothing else, and read it from its beginning."""
    try:
        file.seek(0)
        file.truncate()
        for piece in pieces:
            file.write(piece)
        file.seek(0)
    except OSError as error:
        remedy = "Free some room, or set TMPDIR to a folder that has some."
        raise UserError("export results", error.strerror or str(error), remedy) from error
