"""What the routes return that send all items at once, piece by piece, as they are read."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import chain
from typing import Final, TypeVar

from controller.api.queries import FailuresQuery, ResultsQuery, RunsQuery
from controller.api.reads import Reading, without_samples
from controller.api.route_kinds import Export
from controller.contracts.base import Contract
from controller.contracts.outcome_filter import PageRequest
from controller.contracts.records import StoredResult
from controller.reports.lines import lines_of

READ_AT_ONCE: Final = 500
"""Results that are in memory at a time."""
MEDIA_TYPES: Final = {
    "jsonl": "application/jsonl",
    "parquet": "application/vnd.apache.parquet",
}
Item = TypeVar("Item", bound=Contract)


def result_export(farm: Reading, asked: ResultsQuery) -> Export:
    """Return all results that the filters keep, oldest first; raises StoreDamaged.

    jsonl has late results among the others, in the order of storing.
    """
    found, total = farm.store.selected_results(asked.kept(), asked.newest or 1)
    batches = result_batches(farm, asked) if asked.newest is None else iter([found])
    shown = batches if asked.samples else (_bare(batch) for batch in batches)
    first = next(shown, [])  # so that damage of an index is a proper answer
    pieces = _pieces(chain([first], shown), asked)
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


def _bare(batch: Sequence[StoredResult]) -> Sequence[StoredResult]:
    return [without_samples(one) for one in batch]


def _pieces(batches: Iterable[Sequence[StoredResult]], asked: ResultsQuery) -> Iterator[bytes]:
    if asked.format == "parquet":
        # Late: pyarrow, which takes long to load.
        from controller.reports.arrow import parquet_pieces

        return parquet_pieces(batches)
    return map(lines_of, batches)


def _in_pieces(found: Sequence[Item]) -> Iterator[bytes]:
    starts = range(0, len(found), READ_AT_ONCE)
    return (lines_of(found[start : start + READ_AT_ONCE]) for start in starts)
