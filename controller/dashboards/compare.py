"""The dashboard "Compare hardware": devices, stacks and workloads, against a baseline or side by
side."""

from __future__ import annotations

from dataclasses import replace
from typing import Literal

from grafana_foundation_sdk.models import dashboard

from controller.dashboards import links, panels, promql, ratios, tables, thresholds
from controller.dashboards.board import Board, Row, quarantines, sweeps
from controller.dashboards.panels import HALF, POINTS_OF_RESULTS, WIDE, Query
from controller.dashboards.promql import RANKING, Expr, Wanted, last
from controller.dashboards.ratios import Baseline, Ratios
from controller.dashboards.variables import (
    PRECISION,
    SCENARIO,
    STACK,
    VIRTUAL,
    WORKLOAD,
    Choice,
    device_choice,
    work,
)
from controller.metrics import names
from controller.metrics.names import Metric

MEASURED = last(names.RESULT_TIME, workload=WORKLOAD.wanted)
DEVICE = device_choice(
    names.RESULT_TIME, promql.with_info(MEASURED, "name", virtual=VIRTUAL.wanted)
)
BASE_DEVICE = replace(DEVICE, name="baseline_device", title="Baseline device", many=False)
BASE_STACK = replace(STACK, name="baseline_stack", title="Baseline stack", many=False)
OF_WORK = ("workload", "scenario", "work")
WHO = ("name", "model", "device", "stack", "precision")

LEGEND = "{{name}} {{model}} {{stack}} {{precision}}"
SHOWN = 30
"""Bars in a panel."""
MANY = 20
"""Lines in a chart."""


def compare() -> Board:
    """Return the dashboard that shows the best hardware and stacks, and by how much."""
    return Board(
        links.COMPARE,
        "Compare hardware",
        "Newest valid results of any devices, stacks and workloads: how many times better than a "
        "baseline at the same work, in absolute numbers, and with the accuracy beside the speed. "
        "Real and virtual devices are never compared with each other. For verdicts see the report "
        "of a sweep.",
        (
            *(VIRTUAL, WORKLOAD, DEVICE, STACK, SCENARIO, PRECISION),
            *(BASE_DEVICE, BASE_STACK, LATENCY_WORK, THROUGHPUT_WORK),
        ),
        (
            Row("Overall", (overall(), tables.works())),
            Row("Times better", (by_device(), by_stack(), by_model())),
            Row("Side by side", (latency(), throughput(), speed_and_accuracy())),
            Row("Over time", (latency_over_time(), throughput_over_time())),
        ),
        (sweeps(), quarantines()),
        since="now-7d",
        refresh="1m",
    )


def overall() -> dashboard.Panel:
    """Return how many times better each device is over all works."""
    base = last(names.RESULT, **_chosen(device=BASE_DEVICE.wanted, metric=RANKING))
    means = ratios.overall(_against_device(), base, *WHO[2:])

    def named(expr: Expr) -> Expr:
        return promql.with_info(expr, "name", "model")

    return tables.columns(
        "Overall, against the device ${baseline_device:text}",
        "Geometric mean of how many times better a device is than the baseline device, over all "
        "works that the baseline has a result of; without devices that lack one. Low and high are "
        "the ends of the 95 % interval, empty if not every result was repeated in its sweep; they "
        "are coloured only if 1 is outside.",
        WHO,
        tables.Column("times better", named(means.mean)),
        tables.Column("low", named(means.low), steps=tables.LOW),
        tables.Column("high", named(means.high), steps=tables.HIGH),
        tables.Column("works", named(means.works)),
    )


def by_device() -> dashboard.Panel:
    """Return the heat map of results relative to the baseline device."""
    return tables.heat_map(
        "Against the device ${baseline_device:text}",
        "How many times better each newest result is than the baseline device's, same work, stack "
        "and precision, in the metric that ranks the scenario. Above 1 is better. Not resolved: 1 "
        "is inside the 95 % interval, or a side was not repeated in its sweep.",
        ratios.with_info(_against_device(), "name"),
        ("name", "stack", "precision"),
        OF_WORK,
    )


def by_stack() -> dashboard.Panel:
    """Return the heat map of results relative to the baseline stack on the same device."""
    same = ("device", "workload", "scenario", "precision")
    base = _baseline(BASE_STACK, "stack")
    return tables.heat_map(
        "Against the stack $baseline_stack, on the same device",
        "How many times better each newest result is than the baseline stack's on the same device, "
        "same work and precision. Above 1 is better. Not resolved: as above.",
        ratios.with_info(ratios.times_better(_ranking, base, *same), "name"),
        ("name", "stack", "precision"),
        OF_WORK,
    )


def by_model() -> dashboard.Panel:
    """Return the table of medians of each device model relative to the baseline device."""
    named = ratios.with_info(_against_device(), "model")
    labels = ("model", "stack", "precision", *OF_WORK)
    return tables.heat_map(
        "By model, against the device ${baseline_device:text}",
        "The median over all chosen devices of a model. Devices of one model differ: see how much "
        "in the heat-map of devices. Not resolved: one of its devices is not, or they are on both "
        "sides of 1.",
        ratios.of_groups(named, *labels),
        labels[:3],
        labels[3:],
    )


def latency() -> dashboard.Panel:
    """Return the panel of the lowest latencies."""
    about = f"90th percentile of latency at one work, of the {SHOWN} fastest; shorter is better."
    query = Query(_fastest("bottomk", SHOWN, "latency_p90", LATENCY_WORK), LEGEND)
    title = "Latency: ${latency_work:text}"
    return panels.gauges(title, about, query, size=HALF)


def throughput() -> dashboard.Panel:
    """Return the panel of the highest throughputs."""
    about = (
        f"Throughput at one work, in the workload's unit, of the {SHOWN} fastest; longer is better."
    )
    query = Query(_fastest("topk", SHOWN, "throughput", THROUGHPUT_WORK), LEGEND)
    title = "Throughput: ${throughput_work:text}"
    return panels.gauges(title, about, query, size=HALF)


def speed_and_accuracy() -> dashboard.Panel:
    """Return the table of all chosen results."""
    missed = _named(last(names.QUALITY_MISSED, **_chosen()))
    return tables.columns(
        "Speed and accuracy",
        "Newest valid results in numbers; throughput is in the workload's unit. The target is "
        "judged on the newest result, valid or not: a speed without its accuracy counts for "
        "nothing. Energy is that of a query or step above idle, in joules; it is empty where it is "
        "unknown.",
        ("name", *names.RESULT_LABELS),
        tables.Column("step time", _named(_result(metric="step_time"))),
        tables.Column("latency p50", _named(_result(metric="latency_p50"))),
        tables.Column("latency p90", _named(_result(metric="latency_p90"))),
        tables.Column("latency p99", _named(_result(metric="latency_p99"))),
        tables.Column("throughput", _named(_result(metric="throughput"))),
        *tables.quality_columns(lambda metric: _named(_result(metric=metric))),
        tables.Column("target", missed, words=thresholds.TARGET),
        tables.Column("energy", _named(_result(metric="energy"))),
        tables.Column("peak memory", _named(_result(metric="peak_memory"))),
        size=WIDE,
    )


def latency_over_time() -> dashboard.Panel:
    """Return the chart of latencies over time."""
    about = (
        f"90th percentile of latency of the {MANY} fastest at one work, as newest results replace "
        "each other."
    )
    query = Query(_fastest("bottomk", MANY, "latency_p90", LATENCY_WORK), LEGEND)
    title = "Latency over time: ${latency_work:text}"
    return panels.lines(title, about, query, points=POINTS_OF_RESULTS)


def throughput_over_time() -> dashboard.Panel:
    """Return the chart of throughputs over time."""
    about = (
        f"Throughput of the {MANY} fastest at one work, in the workload's unit, as newest results "
        "replace each other."
    )
    query = Query(_fastest("topk", MANY, "throughput", THROUGHPUT_WORK), LEGEND)
    title = "Throughput over time: ${throughput_work:text}"
    return panels.lines(title, about, query, points=POINTS_OF_RESULTS)


def _against_device() -> Ratios:
    base = _baseline(BASE_DEVICE, "device")
    return ratios.times_better(_ranking, base, "workload", "stack", "scenario", "precision")


def _baseline(base: Choice, label: str) -> Baseline:
    """Return the series of the baseline; label: of which it is one value.

    Only they need be of real or of virtual devices: the work of one is never the other's.
    """

    def those(metric: Metric, wanted: Wanted) -> Expr:
        return promql.with_info(_ranking(metric, **{label: wanted}), virtual=VIRTUAL.wanted)

    return Baseline(
        lambda metric: those(metric, promql.kept(f"${base.name}")),
        lambda metric: those(metric, promql.both(_chosen()[label], base.wanted)),
    )


def _ranking(metric: Metric, **where: Wanted) -> Expr:
    """Return the chosen series with the labels of `result`, in the metrics that rank."""
    return last(metric, **_chosen(metric=RANKING, **where))


def _fastest(which: Literal["topk", "bottomk"], number: int, metric: str, work: Choice) -> Expr:
    found = _results(metric=metric, work=work.wanted)
    return promql.with_info(promql.extreme(which, number, found), "name", "model")


def _results(**where: Wanted) -> Expr:
    """Return the chosen results, of real or of virtual devices."""
    return promql.with_info(_result(**where), virtual=VIRTUAL.wanted)


def _result(**where: Wanted) -> Expr:
    return last(names.RESULT, **_chosen(**where))


def _named(results: Expr) -> Expr:
    """Return those of real or of virtual devices, with the device's name."""
    return promql.with_info(results, "name", virtual=VIRTUAL.wanted)


def _chosen(**where: Wanted) -> dict[str, Wanted]:
    chosen = (WORKLOAD, DEVICE, STACK, SCENARIO, PRECISION)
    return {choice.name: choice.wanted for choice in chosen} | where


LATENCY_WORK = work("latency_work", "Latency of", _results(metric="latency_p90"))
THROUGHPUT_WORK = work("throughput_work", "Throughput of", _results(metric="throughput"))
