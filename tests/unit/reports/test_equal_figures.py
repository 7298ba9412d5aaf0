"""A sweep has the same figures wherever it is shown: terminal, report, JSON, CSV, Prometheus."""

from __future__ import annotations

import csv
import io
import json
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import pytest

from controller.contracts.records import precision_of
from controller.contracts.result import Validity
from controller.contracts.units import Unit
from controller.contracts.work import work_of
from controller.metrics import names
from controller.metrics.names import Metric
from controller.reports.figures import shown
from controller.reports.html.report import report_html
from controller.reports.summary import CellSummary, as_csv, summaries_of
from controller.reports.views.sweep import sweep_view
from tests.support.exported import Labels, Values, exported, recorded_as
from tests.support.sweep_examples import MADE, SweepExample
from tests.support.table_examples import TableExample, examples, with_program

EXAMPLES = examples()
TOLERANCE: Final = 1e-12
"""Of what Prometheus computes itself: its logarithms and Python's may differ in the last digit."""
RATIOS = {"sizes": 2}
"""Sweep → rows whose baseline is Prometheus's, too: the fp32 cell of its device."""


@pytest.mark.parametrize("name", EXAMPLES)
def test_terminal_report_json_csv_and_prometheus_have_the_same_figures(
    name: str, tmp_path: Path
) -> None:
    example = EXAMPLES[name]
    rankings = example.summary.rankings
    table = " ".join("\n".join(example.lines(2000)).split())
    rows = list(csv.DictReader(io.StringIO(as_csv(rankings))))
    data = SweepExample(baseline=example.baseline).data(example.results, example.failures)
    page = _text(report_html(sweep_view(data, with_program(), MADE)))
    figures = 0
    for cell in summaries_of(rankings):
        told = json.loads(cell.model_dump_json())
        own = {r["metric"]: r for r in rows if _is_of(r, told) and r["metric"]}
        assert own.keys() == told["metrics"].keys()
        for metric, figure in told["metrics"].items():
            line = own[metric]
            assert [line["value"], line["low"], line["high"]] == [
                "" if figure[key] is None else repr(figure[key]) for key in ("value", "low", "high")
            ]
            ends = [figure["low"], figure["high"]] if figure["low"] is not None else []
            for value in (figure["value"], *ends):
                assert shown(value, Unit(figure["unit"])) in table
                assert shown(value, Unit(figure["unit"])) in page
                figures += 1
        if told["vs_baseline"] is not None:
            assert f"{told['vs_baseline']:.2f}×" in table
            assert f"{told['vs_baseline']:.2f}×" in page
        if told["no_ratio"]:
            assert told["no_ratio"] in table
            assert told["no_ratio"] in page
    assert figures
    _prometheus_agrees(example, tmp_path, ratios=RATIOS.get(name, 0))


def _is_of(line: dict[str, str], cell: dict[str, Any]) -> bool:
    return all(line[key] == str(cell[key]) for key in ("device", "cell_key", "scenario"))


def _text(page: str) -> str:
    return " ".join(re.sub(r"<[^>]+>", "", page).replace("&lt;", "<").split())


def _prometheus_agrees(example: TableExample, folder: Path, ratios: int) -> None:
    """Compare what the controller exports of a sweep with its summary, to the last digit."""
    cells = summaries_of(example.summary.rankings)
    exposed = exported(example.results, example.failures, with_program())
    newest = _newest(example, cells)
    for labels, cell in newest.items():
        _has_figures_of(cell, labels, exposed)
    named = {frozenset((n, v) for n, v in k if n != "metric") for k in exposed[names.RESULT.name]}
    assert named == newest.keys(), "what has no VALID result is not exported"
    assert _ended(exposed) == _counts(cells)
    expected = dict(_ratios(newest, exposed))
    assert len(expected) == 3 * ratios
    if expected:
        recorded_as(exposed, expected, folder, TOLERANCE)


def _newest(example: TableExample, cells: Sequence[CellSummary]) -> dict[Labels, CellSummary]:
    """Return the cell whose figures each series has: of cells alike in its labels, the newest."""
    by_cell = {(cell.cell_key, cell.device): cell for cell in cells}
    valid = [r for r in example.results if r.validity is Validity.VALID]
    in_order = (by_cell[r.cell_key, r.device] for r in valid)
    return {_labels(cell): cell for cell in in_order}


def _labels(cell: CellSummary) -> Labels:
    work = work_of(with_program(), cell.workload, cell.scenario, cell.stack, cell.knobs).key
    values = (
        *(cell.device, cell.workload, cell.stack, cell.scenario),
        precision_of(cell.knobs) or names.NO_PRECISION,
        f"{work}{names.VIRTUAL_WORK}" if cell.virtual else work,
    )
    return frozenset(zip(names.RESULT_LABELS, values, strict=True))


def _has_figures_of(cell: CellSummary, labels: Labels, exposed: Values) -> None:
    for metric, figure in cell.metrics.items():
        series = labels | {("metric", metric)}
        assert exposed[names.RESULT.name][series] == figure.value
        factor = exposed.get(names.RESULT_INTERVAL.name, {}).get(series)
        ends = (figure.value / factor, figure.value * factor) if factor else (None, None)
        assert ends == (figure.low, figure.high)
    unit = cell.metrics[cell.ranked_by].unit
    ranking = frozenset({("scenario", cell.scenario), ("metric", cell.ranked_by)})
    assert exposed[names.RANKING.name][ranking] == (-1 if unit.lower_is_better else 1)


def _ended(exposed: Values) -> Counter[str]:
    """Return how many attempts ended in which way, as the counters say."""
    found: Counter[str] = Counter()
    for labels, value in exposed[names.RUNS.name].items():
        found[dict(labels)["outcome"]] += int(value)
    return +found


def _counts(cells: Sequence[CellSummary]) -> Counter[str]:
    words = ("valid", "disturbed", "invalid", "failed")
    return +Counter({word: sum(getattr(cell, word) for cell in cells) for word in words})


def _ratios(
    newest: Mapping[Labels, CellSummary], exposed: Values
) -> Iterator[tuple[tuple[Metric, Labels], float]]:
    """Yield what Prometheus's rules should record where both have the same baseline."""
    tasks = {
        _task(labels)
        for labels, cell in newest.items()
        if cell.is_baseline and labels in exposed.get(names.BASELINE_STACK.name, {})
    }
    for labels, cell in newest.items():
        if cell.vs_baseline is None or _task(labels) not in tasks:
            continue
        series = labels | {("metric", cell.ranked_by)}
        yield (names.RATIO_TO_STACK, series), cell.vs_baseline
        assert cell.vs_baseline_low is not None
        assert cell.vs_baseline_high is not None
        yield (names.RATIO_TO_STACK_LOW, series), cell.vs_baseline_low
        yield (names.RATIO_TO_STACK_HIGH, series), cell.vs_baseline_high


def _task(labels: Labels) -> Labels:
    return frozenset((name, value) for name, value in labels if name in ("device", "work"))
