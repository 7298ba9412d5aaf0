"""Boards of made-up results; nothing of it was measured."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from controller.contracts.imported import ImportedResult
from controller.contracts.published import PublishedFile, PublishedRun
from controller.contracts.records import StoredFailure, StoredResult
from controller.contracts.result import Measurement
from controller.contracts.units import Unit
from controller.reports.views.board import BoardData, board_groups, board_view
from controller.reports.views.board_costs import Prices, prices_of
from controller.reports.views.board_model import Board, BoardRow
from tests.support.sweep_examples import MADE, SweepExample, catalog, queried, result

NO_PRICES = Prices({}, ())
SHA = "0" * 64


def board_of(
    results: Sequence[StoredResult],
    failures: Sequence[StoredFailure] = (),
    profiled: frozenset[str] = frozenset(),
    labels: Mapping[str, Mapping[str, str]] | None = None,
    currency: str = "",
    imported: Sequence[ImportedResult] = (),
) -> Board:
    """Return the board of outcomes of one sweep; labels: of devices, by their ids."""
    record = SweepExample().data([]).record
    prices = prices_of(labels or {})
    data = BoardData([record], results, failures, profiled, prices, currency, imported)
    groups = board_groups(data, catalog())
    published = {r.run_id: published_run(r.run_id) for group in groups.all for r in group.results}
    return board_view(data, groups, published, catalog(), MADE)


def published_run(run_id: str) -> PublishedRun:
    """Return what a board holds of a run whose logs were at hand."""
    names = ("result.json", "performance/mlperf_log_detail.txt")
    files = tuple(PublishedFile(name=name, size=3, sha256=SHA) for name in names)
    return PublishedRun(folder=f"runs/{run_id}", files=files, absent={"latencies": "too large"})


def rows_of(board: Board) -> dict[str, BoardRow]:
    """Return the rows of a board with one ranking, by their devices' ids."""
    (ranking,) = board.rankings
    return {row.row.device.id: row for row in ranking.rows}


def answered(device: str, *times: float, **changes: object) -> StoredResult:
    """Return a single-stream run with these latencies in seconds, and their mean."""
    mean = Measurement(value=sum(times) / len(times), unit=Unit.SECONDS)
    metrics = {**queried(times), "latency_mean": mean}
    return result(device=device, scenario="single_stream", metrics=metrics, **changes)
