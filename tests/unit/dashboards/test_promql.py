"""Queries can't be built with labels or units that their series don't have."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace

import pytest

from controller.contracts.catalog import load_catalog
from controller.dashboards import promql, ratios
from controller.dashboards.panels import Query
from controller.dashboards.promql import Expr, WrongQuery, kept, last, like
from controller.dashboards.tables import Column, columns, quality_columns
from controller.dashboards.units import (
    QUALITY_METRICS,
    RANKING_METRICS,
    UNITS_OF_RESULT,
    UNRANKED_METRICS,
    unit_of_result,
)
from controller.dashboards.variables import Choice
from controller.metrics import names
from controller.metrics.names import Metric

SAME = ("workload", "stack", "scenario", "precision")
BASELINE = ratios.Baseline(last, last)
QUALITIES = quality_columns(lambda metric: last(names.RESULT, metric=metric))
BETTER = ratios.times_better(last, BASELINE, *SAME)


def _without_work(metric: Metric) -> Expr:
    return promql.over("max", last(metric), *sorted({*names.RESULT_LABELS, "metric"} - {"work"}))


def test_gauge_keeps_only_labels_that_may_vary() -> None:
    expr = last(names.DEVICE_STATE, state="busy")
    assert expr.text == 'max by (device) (benchfarm_device_state{state="busy"})'
    assert expr.labels == {"device"}
    assert last(names.DEVICE_STATE, state=like("$state")).labels == {"device", "state"}
    assert last(names.DEVICE_STATE, device=kept("$device")).labels == {"device", "state"}
    assert last(names.RUNS_QUEUED).text == "max (benchfarm_runs_queued)"


def test_recorded_gauge_keeps_all_labels_so_that_a_blind_division_is_refused() -> None:
    expr = last(names.RATIO_TO_DEVICE, device="x")
    assert expr.text == 'benchfarm:result:ratio_to_baseline_device{device="x"}'
    assert expr.labels == set(names.RATIO_TO_DEVICE.labels)


def test_one_label_may_have_to_pass_two_conditions() -> None:
    expr = last(names.DEVICE_STATE, state=promql.both(like("$state"), "$one"))
    assert expr.text.endswith('(benchfarm_device_state{state=~"$state", state="$one"})')
    assert "state" in expr.labels


@pytest.mark.parametrize(
    ("same", "recorded", "other"),
    [
        (SAME, names.RATIO_TO_DEVICE, names.RATIO_TO_STACK),
        (
            ("device", "workload", "scenario", "precision"),
            names.RATIO_TO_STACK,
            names.RATIO_TO_DEVICE,
        ),
    ],
)
def test_ratios_are_of_recorded_ratios_to_one_baseline(
    same: tuple[str, ...], recorded: Metric, other: Metric
) -> None:
    every = ratios.times_better(last, BASELINE, *same).every.text
    assert f"({recorded} / on ({', '.join(same)}, work, metric) group_left () {recorded})" in every
    assert other.name not in every


def test_values_are_quoted() -> None:
    assert last(names.AGENT_UP, agent='a"b\\').text == r'max (benchfarm_agent_up{agent="a\"b\\"})'


@pytest.mark.parametrize(
    "build",
    [
        lambda: last(names.AGENT_UP, device="x"),
        lambda: promql.over("sum", last(names.AGENT_UP), "device"),
        lambda: promql.count(last(names.AGENT_UP), "device"),
        lambda: promql.median(last(names.AGENT_UP), "device"),
        lambda: promql.extreme("topk", 1, last(names.AGENT_UP), "device"),
        lambda: promql.with_info(last(names.AGENT_UP), "model"),
        lambda: promql.with_info(last(names.DEVICE_BATTERY), "colour"),
        lambda: promql.with_info(last(names.DEVICE_BATTERY), colour="red"),
        lambda: promql.only(last(names.DEVICE_BATTERY), last(names.AGENT_UP), "device"),
        lambda: ratios.times_better(lambda _: last(names.DEVICE_BATTERY), BASELINE, *SAME),
        lambda: ratios.times_better(last, replace(BASELINE, series=_without_work), *SAME),
        lambda: ratios.times_better(last, replace(BASELINE, among=_without_work), *SAME),
        lambda: ratios.times_better(last, BASELINE, *SAME, "colour"),
        lambda: ratios.times_better(last, BASELINE, "workload", "scenario", "precision"),
        lambda: ratios.times_better(last, BASELINE, "device", "workload", "stack"),
        lambda: ratios.overall(BETTER, last(names.AGENT_UP), "device"),
        lambda: ratios.best("throughput", last(names.AGENT_UP), "work"),
        lambda: promql.joined(last(names.AGENT_UP), "row", "device"),
        lambda: promql.per_minute(names.RUNS, "device"),
        lambda: promql.increase(names.RUNS, "5m", device="x"),
        lambda: promql.quantile(names.RUN_SECONDS, 0.5, "5m", "device"),
        lambda: promql.or_zero(last(names.AGENT_UP)),
        lambda: Query(last(names.AGENT_UP), "{{device}}"),
        lambda: columns("", "", ("agent", "device"), Column("", last(names.AGENT_UP))),
        lambda: Choice("x", "", names.AGENT_UP, "device"),
        lambda: Choice("x", "", names.AGENT_UP, "agent", (("device", "y"),)).query,
        lambda: last(names.RUNS),
        lambda: promql.increase(names.RUNS_QUEUED, "5m"),
        lambda: promql.quantile(names.RUNS, 0.5, "5m"),
    ],
)
def test_wrong_label_or_kind_fails_at_build(build: Callable[[], object]) -> None:
    with pytest.raises(WrongQuery):
        build()


@pytest.mark.parametrize(
    ("expr", "unit"),
    [
        (last(names.QUEUE_OLDEST), "s"),
        (last(names.DEVICE_TEMPERATURE), "celsius"),
        (last(names.DEVICE_BATTERY), "percentunit"),
        (last(names.RUN_STEPS), "suffix:steps/s"),
        (last(names.RUN_QUERIES), "suffix:queries/s"),
        (last(names.RUN_LOSS), "none"),
        (last(names.RUNS_QUEUED), "short"),
        (last(names.RESULT, metric="step_time"), "s"),
        (last(names.RESULT, metric="throughput"), "none"),
        (last(names.RESULT, metric="peak_memory"), "bytes"),
        (promql.age(names.RESULT_TIME), "s"),
        (promql.quantile(names.DISPATCH_SECONDS, 0.5, "5m"), "s"),
        (promql.per_minute(names.RUNS), "opm"),
        (promql.count(last(names.DEVICE_TEMPERATURE)), "short"),
        (promql.over("max", last(names.DEVICE_TEMPERATURE)), "celsius"),
        *zip((column.expr for column in QUALITIES), ("percentunit", "dB"), strict=True),
        (BETTER.every, "suffix:×"),
        (BETTER.settled, "suffix:×"),
        (ratios.of_groups(BETTER, "stack").settled, "suffix:×"),
        (ratios.overall(BETTER, last(names.RESULT), "device", "stack").low, "suffix:×"),
        (ratios.best("throughput", last(names.RESULT, metric=kept("throughput")), "work"), "none"),
    ],
)
def test_unit_follows_from_the_metric(expr: Expr, unit: str) -> None:
    assert expr.unit == unit


def test_every_quality_is_in_one_column_with_metrics_of_its_unit() -> None:
    found = [re.findall(r'result\{metric=~?"([^"]+)"', column.expr.text) for column in QUALITIES]
    shares, decibels = (one.split("|") for (one,) in found)
    assert [*shares, *decibels] == list(QUALITY_METRICS)
    assert decibels == ["PSNR"]


def test_a_reference_is_in_decibels_where_the_quality_is() -> None:
    others, decibels = ratios.in_decibels(last(names.RESULT, metric="reference_accuracy"))
    assert (others.unit, decibels.unit) == ("percentunit", "dB")
    judged = 'max by (workload, metric) (benchfarm_quality_target{metric="PSNR"})'
    assert f" unless on (workload) {judged}" in others.text
    assert f" and on (workload) {judged}" in decibels.text


def test_ratios_are_within_one_work() -> None:
    for expr in (BETTER.every, BETTER.off):
        assert re.search(r"[/+] on \(.+, work, metric\) group_left", expr.text)


def test_result_without_a_known_unit_fails_at_build() -> None:
    with pytest.raises(KeyError):
        last(names.RESULT, metric="no_such_metric")


def test_catalogue_has_no_metric_that_dashboards_would_leave_out() -> None:
    catalog = load_catalog()
    assert {it.metric for it in catalog.scenarios.values()} == {
        *RANKING_METRICS,
        *UNRANKED_METRICS,
    }
    targets = {it.quality_target for it in catalog.workloads.values() if it.quality_target}
    assert targets
    assert {target.metric for target in targets} <= set(QUALITY_METRICS)


def test_every_listed_result_can_be_shown() -> None:
    assert all(unit_of_result(metric) for metric in UNITS_OF_RESULT)
    assert set(RANKING_METRICS) <= UNITS_OF_RESULT.keys()
