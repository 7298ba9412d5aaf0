"""What the routes return that send all items at once, piece by piece, as they are read."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from itertools import chain
from typing import Final, TypeAlias, TypeVar

from controller.api.queries import FailuresQuery, ResultsQuery, RunsQuery
from controller.api.reads import Reading, without_samples
from controller.api.route_kinds import Export
from controller.contracts.flat_result import FlatResult
from controller.contracts.outcome_filter import OutcomeFilter, PageRequest, Place
from controller.contracts.records import StoredFailure, StoredResult
from controller.reports.lines import lines_of

READ_AT_ONCE: Final = 500
"""Outcomes that are in memory at a time as contracts."""
MEDIA_TYPES: Final = {
    "jsonl": "application/jsonl",
    "parquet": "application/vnd.apache.parquet",
}
Item = TypeVar("Item", StoredResult, StoredFailure, FlatResult)
Part: TypeAlias = tuple[Sequence[Item], Place | None]
"""Outcomes, and the place of the last one if others follow."""


def result_export(farm: Reading, asked: ResultsQuery, at_once: int = READ_AT_ONCE) -> Export:
    """Return all results that the filters keep, oldest first; raises StoreDamaged.

    Late results are among the others, in the order of storing.
    """
    wanted, newest = asked.kept(), asked.newest
    total = farm.store.stored_outcomes("result", wanted)
    if asked.format == "parquet" and newest is None:
        pieces = _parquet(_begun(farm.store.flat_batches(wanted)), asked)
        return Export(MEDIA_TYPES["parquet"], pieces, total)

    def part(request: PageRequest) -> Part[StoredResult]:
        page = farm.store.result_page(wanted, request)
        return page.results, page.last

    batches = _begun(_batches(farm, "result", wanted, newest, part, at_once))
    if asked.format == "parquet":
        flat = ([*map(FlatResult.of, batch)] for batch in batches)
        return Export(MEDIA_TYPES["parquet"], _parquet(flat, asked), total)
    shown = batches if asked.samples else ([*map(without_samples, one)] for one in batches)
    return Export(MEDIA_TYPES["jsonl"], map(lines_of, shown), total)


def failure_lines(farm: Reading, asked: FailuresQuery, at_once: int = READ_AT_ONCE) -> Export:
    """Return all failed attempts that the filters keep, oldest first, one a line; raises
    StoreDamaged."""
    wanted = asked.wanted()

    def part(request: PageRequest) -> Part[StoredFailure]:
        page = farm.store.failure_page(wanted, request)
        return page.failures, page.last

    total = farm.store.stored_outcomes("failure", wanted)
    batches = _begun(_batches(farm, "failure", wanted, asked.newest, part, at_once))
    return Export(MEDIA_TYPES["jsonl"], map(lines_of, batches), total)


def run_lines(farm: Reading, asked: RunsQuery) -> Export:
    """Return runs in the order of the queue, one a line.

    All are of one moment: those that end while they are sent are neither lost nor sent twice. The
    total also counts damaged ones, unless only open ones are asked for: whether one is, is unknown.
    """
    stored = farm.store.stored_runs(asked.sweep)  # first: more may be added meanwhile
    found = farm.store.runs(asked.sweep, open_only=asked.open)
    starts = range(0, len(found), READ_AT_ONCE)
    pieces = (lines_of(found[start : start + READ_AT_ONCE]) for start in starts)
    total = len(found) if asked.open else max(len(found), stored)
    return Export(MEDIA_TYPES["jsonl"], pieces, total)


def _batches(
    farm: Reading,
    kind: str,
    wanted: OutcomeFilter,
    newest: int | None,
    part: Callable[[PageRequest], Part[Item]],
    at_once: int,
) -> Iterator[Sequence[Item]]:
    """Yield the outcomes that a filter keeps, some at a time, in the order of storing.

    newest: at most so many of the newest; None for all.
    """
    left = math.inf if newest is None else newest
    after = None if newest is None else farm.store.before_newest(kind, wanted, newest)
    while left:
        size = int(min(at_once, left))
        found, after = part(PageRequest(size=size, after=after))
        yield found
        if after is None:
            return
        left -= size


def _begun(batches: Iterator[Sequence[Item]]) -> Iterator[Sequence[Item]]:
    """Return batches, the first of which is read, so that damage of an index is a proper answer."""
    return chain([next(batches, [])], batches)


def _parquet(batches: Iterator[Sequence[FlatResult]], asked: ResultsQuery) -> Iterator[bytes]:
    # Late: pyarrow, which takes long to load.
    from controller.reports.arrow import parquet_pieces

    return parquet_pieces(batches, samples=asked.samples)
