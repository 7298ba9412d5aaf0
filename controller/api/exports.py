"""What the routes return that send all items at once, piece by piece, as they are read."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import chain
from typing import Any, Final, TypeVar

from controller.api.queries import FailuresQuery, ResultsQuery, RunsQuery
from controller.api.reads import Reading, without_samples
from controller.api.route_kinds import Export
from controller.contracts.base import Contract
from controller.contracts.flat_result import FlatResult
from controller.contracts.outcome_filter import PageRequest
from controller.contracts.records import StoredResult
from controller.reports.lines import lines_of

READ_AT_ONCE: Final = 500
"""Results that are in memory at a time as contracts."""
MEDIA_TYPES: Final = {
    "jsonl": "application/jsonl",
    "parquet": "application/vnd.apache.parquet",
}
Item = TypeVar("Item", bound=Contract)


def result_export(farm: Reading, asked: ResultsQuery) -> Export:
    """Return all results that the filters keep, oldest first; raises StoreDamaged.

    Late results are among the others, in the order of storing.
    """
    found, total = farm.store.selected_results(asked.kept(), asked.newest or 1)
    newest = None if asked.newest is None else found
    pieces = (
        _parquet(_begun(_flat_batches(farm, asked, newest)), asked)
        if asked.format == "parquet"
        else map(lines_of, _begun(_shown_batches(farm, asked, newest)))
    )
    return Export(MEDIA_TYPES[asked.format], pieces, total)


def result_batches(farm: Reading, asked: ResultsQuery) -> Iterator[Sequence[StoredResult]]:
    """Yield the results that the filters keep, some at a time, in the order of storing."""
    wanted, after = asked.kept(), None
    while True:
        page = farm.store.result_page(wanted, PageRequest(size=READ_AT_ONCE, after=after))
        yield page.results
        if page.last is None:
            return
        after = page.last


def failure_lines(farm: Reading, asked: FailuresQuery) -> Export:
    """Return all failed attempts that the filters keep, oldest first, one a line."""
    found, total = farm.store.selected_failures(asked.wanted(), asked.newest)
    return Export(MEDIA_TYPES["jsonl"], _in_pieces(found), total)


def run_lines(farm: Reading, asked: RunsQuery) -> Export:
    """Return runs in the order of the queue, one a line."""
    found = farm.store.runs(asked.sweep, open_only=asked.open)
    return Export(MEDIA_TYPES["jsonl"], _in_pieces(found), len(found))


def _begun(batches: Iterator[Sequence[Any]]) -> Iterator[Sequence[Any]]:
    """Return batches, the first of which is read, so that damage of an index is a proper answer."""
    return chain([next(batches, [])], batches)


def _shown_batches(
    farm: Reading, asked: ResultsQuery, newest: Sequence[StoredResult] | None
) -> Iterator[Sequence[StoredResult]]:
    batches = result_batches(farm, asked) if newest is None else iter([newest])
    return batches if asked.samples else ([*map(without_samples, batch)] for batch in batches)


def _flat_batches(
    farm: Reading, asked: ResultsQuery, newest: Sequence[StoredResult] | None
) -> Iterator[Sequence[FlatResult]]:
    if newest is None:
        return farm.store.flat_batches(asked.kept())
    return iter([[*map(FlatResult.of, newest)]])


def _parquet(batches: Iterator[Sequence[FlatResult]], asked: ResultsQuery) -> Iterator[bytes]:
    # Late: pyarrow, which takes long to load.
    from controller.reports.arrow import parquet_pieces

    return parquet_pieces(batches, samples=asked.samples)


def _in_pieces(found: Sequence[Item]) -> Iterator[bytes]:
    starts = range(0, len(found), READ_AT_ONCE)
    return (lines_of(found[start : start + READ_AT_ONCE]) for start in starts)
