"""The rows of a published board's rankings, computed again from the stored results."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from statistics import median
from typing import Any, Final

from controller.contracts.published import RESULT
from controller.contracts.records import StoredResult
from controller.contracts.result import Validity, usable
from controller.contracts.units import Unit
from controller.loadgen.checks import Check, equal, judged, unchecked
from controller.stats.medians import MedianOfRuns, Ratio, median_of_runs, ratio

BOARD: Final = "data/board.json"
_BY: Final = f"{RESULT} of its runs"
_CLOSE: Final = 1e-9
"""Intervals come from logarithms, whose last digits depend on the machine's libraries."""
_LOWER_IS_BETTER: Final = frozenset(unit.value for unit in Unit if unit.lower_is_better)
Json = Mapping[str, Any]


@dataclass(frozen=True, slots=True, eq=False)
class RowOfBoard:
    """A row as a board has it, and what it is computed from."""

    told: Json
    results: Mapping[str, StoredResult]
    """Its runs' stored results, by their folders."""
    metric: str
    """The one that ranks it."""

    @property
    def shown(self) -> list[StoredResult]:
        """The results that its figures come from."""
        return usable(self.results.values())

    @property
    def ranked(self) -> MedianOfRuns | None:
        """The figure that ranks it: the median of all samples, not of the runs' values."""
        runs = [r.metrics[self.metric].drawn for r in self.shown if self.metric in r.metrics]
        return median_of_runs(runs) if runs else None

    def count(self, validity: Validity) -> int:
        """Return how many of its results have a validity."""
        return sum(result.validity is validity for result in self.results.values())

    def is_used(self, folder: str) -> bool:
        """Return whether the row's figure comes from a run."""
        result = self.results[folder]
        return self.metric in result.metrics and any(each is result for each in self.shown)


def row_checks(row: RowOfBoard, ranked: MedianOfRuns | None, quality: str) -> Iterator[Check]:
    """Yield the checks of a row by itself. ranked: its own; quality: the metric, empty if none."""
    told = row.told
    for run in told["runs"]:
        yield equal(f"{BOARD}: used", run["used"], row.is_used(run["folder"]), _BY)
    for validity in Validity:
        name = validity.value.lower()
        yield equal(f"{BOARD}: {name}", told["results"][name], row.count(validity), _BY)
    if failed := told["results"]["failed"]:
        yield unchecked(f"{BOARD}: failed", failed, "a board has no files of failures")
    said = {name: metric["value"] for name, metric in told["metrics"].items()}
    for name, value in (said | ({quality: told["quality"]} if quality else {})).items():
        values = [r.metrics[name].value for r in row.shown if name in r.metrics]
        if name != row.metric and (values or value is not None):
            expected = median(values) if values else None
            yield equal(f"{BOARD}: row's {name}", value, expected, _BY)
    if ranked or told["value"] is not None:
        middle = ranked.median if ranked else None
        yield equal(f"{BOARD}: row's {row.metric}", told["value"], middle, _BY)
    interval = ranked.interval if ranked else None
    yield _interval(f"{BOARD}: interval", told["interval"], interval)


def rank_checks(
    rows: Sequence[RowOfBoard], ranked: Sequence[MedianOfRuns | None], unit: str
) -> Iterator[tuple[int, Check]]:
    """Yield the checks of rows against the others of their ranking, with the number of each row.

    ranked: the figure of each row; unit: of all of them. Rows of equal figures stay in the
    board's order.
    """
    sign = 1 if unit in _LOWER_IS_BETTER else -1
    ranks = [
        each is not None and bool(row.count(Validity.VALID))
        for row, each in zip(rows, ranked, strict=True)
    ]

    def place(number: int) -> tuple[bool, bool, float]:
        one = ranked[number]
        return not ranks[number], one is None, sign * one.median if one else 0.0

    order = sorted(range(len(rows)), key=place)
    compares_speed = any(row.told["vs_best"] is not None for row in rows)
    for at, number in enumerate(order):
        told = rows[number].told
        rank = at + 1 if ranks[number] else None
        yield number, equal(f"{BOARD}: rank", told["rank"], rank, _BY)
        best = None
        if at and compares_speed and ranks[number]:
            best = _advantage(ranked[number], ranked[order[0]], sign)
        value, interval = (best.value, best.interval) if best else (None, None)
        yield number, equal(f"{BOARD}: vs_best", told["vs_best"], value, _BY)
        yield number, _interval(f"{BOARD}: vs_best's interval", told["vs_best_interval"], interval)


def _advantage(mine: MedianOfRuns | None, best: MedianOfRuns | None, sign: int) -> Ratio | None:
    """Return how many times as fast one is as the best; None if a value is not positive."""
    if mine is None or best is None or min(mine.median, best.median) <= 0:
        return None
    return ratio(best, mine) if sign > 0 else ratio(mine, best)


def _interval(figure: str, told: Sequence[float] | None, expected: Sequence[float] | None) -> Check:
    if told is None or expected is None:
        return judged(figure, told, expected, _BY, same=told is None and expected is None)
    same = len(told) == len(expected) and all(
        math.isclose(one, other, rel_tol=_CLOSE) for one, other in zip(told, expected, strict=True)
    )
    return judged(figure, list(told), list(expected), _BY, same=same)
