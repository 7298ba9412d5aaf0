"""The dashboard "Compare hardware": devices, stacks and workloads, against a baseline or side by
side."""

from __future__ import annotations

from dataclasses import replace

from grafana_foundation_sdk.models import dashboard

from controller.dashboards import links, panels, promql, tables, thresholds
from controller.dashboards.board import Board, Row, quarantines, sweeps
from controller.dashboards.panels import HALF, POINTS_OF_RESULTS, WIDE, Query
from controller.dashboards.promql import QUALITY, RANKING, Expr, Wanted, last
from controller.dashboards.variables import (
    PRECISION,
    SCENARIO,
    STACK,
    VIRTUAL,
    WORKLOAD,
    Choice,
    having_results,
)
from controller.metrics import names

DEVICE = Choice(
    "device", "Device", names.RESULT_TIME, "device", among=having_results(workload=WORKLOAD.wanted)
)
BASE_DEVICE = replace(DEVICE, name="baseline_device", title="Baseline device", many=False)
BASE_STACK = replace(STACK, name="baseline_stack", title="Baseline stack", many=False)
CHOICES = (VIRTUAL, WORKLOAD, DEVICE, STACK, SCENARIO, PRECISION, BASE_DEVICE, BASE_STACK)

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
        "baseline, in absolute numbers, and with the accuracy beside the speed. Real and virtual "
        "devices are never compared with each other. For intervals and significance see the "
        "report of a sweep.",
        CHOICES,
        (
            Row("Times better", (by_device(), by_stack(), by_model())),
            Row("Side by side", (latency(), throughput(), speed_and_accuracy())),
            Row("Over time", (latency_over_time(), throughput_over_time())),
        ),
        (sweeps(), quarantines()),
        since="now-7d",
        refresh="1m",
    )


def by_device() -> dashboard.Panel:
    """Return the heat map of results relative to the baseline device."""
    return tables.heat_map(
        "Against the device $baseline_device",
        "How many times better each newest result is than the baseline device's, same workload, "
        "stack, scenario and precision, in the metric that ranks the scenario. Above 1 is better.",
        _against_device(),
        ("device", "stack", "precision"),
        ("workload", "scenario"),
    )


def by_stack() -> dashboard.Panel:
    """Return the heat map of results relative to the baseline stack on the same device."""
    base = last(names.RESULT, **_chosen(stack=BASE_STACK.wanted, metric=RANKING))
    same = ("device", "workload", "scenario", "precision")
    return tables.heat_map(
        "Against the stack $baseline_stack, on the same device",
        "How many times better each newest result is than the baseline stack's on the same device, "
        "same workload, scenario and precision. Above 1 is better.",
        promql.times_better(_results(metric=RANKING), base, *same),
        ("device", "stack", "precision"),
        ("workload", "scenario"),
    )


def by_model() -> dashboard.Panel:
    """Return the table of medians of each device model relative to the baseline device."""
    named = promql.with_info(_against_device(), "model")
    labels = ("model", "stack", "precision", "workload", "scenario")
    return tables.heat_map(
        "By model, against the device $baseline_device",
        "The median over all chosen devices of a model. Devices of one model differ: see how much "
        "in the heat-map of devices.",
        promql.median(named, *labels),
        labels[:3],
        labels[3:],
    )


def latency() -> dashboard.Panel:
    """Return the panel of the lowest latencies."""
    lowest = promql.extreme("bottomk", SHOWN, _results(metric="latency_p90"))
    about = f"90th percentile of latency of the {SHOWN} fastest; shorter is better."
    query = Query(lowest, "{{device}} {{stack}} {{precision}} {{workload}}")
    return panels.gauges("Latency", about, query, size=HALF)


def throughput() -> dashboard.Panel:
    """Return the panel of the highest throughputs."""
    highest = promql.extreme("topk", SHOWN, _results(metric="throughput"))
    about = f"Samples (images) a second of the {SHOWN} fastest; longer is better."
    query = Query(highest, "{{device}} {{stack}} {{precision}} {{workload}} {{scenario}}")
    return panels.gauges("Throughput", about, query, size=HALF)


def speed_and_accuracy() -> dashboard.Panel:
    """Return the table of all chosen results."""
    accuracy = promql.accuracy(_results(metric=QUALITY))
    missed = promql.with_info(last(names.QUALITY_MISSED, **_chosen()), virtual=VIRTUAL.wanted)
    return tables.columns(
        "Speed and accuracy",
        "Newest valid results in numbers. The target is judged on the newest result, valid or not: "
        "a speed without its accuracy counts for nothing. Energy is that of a query or step above "
        "idle; it is empty where it is unknown.",
        names.RESULT_LABELS,
        tables.Column("step time", _results(metric="step_time")),
        tables.Column("latency p50", _results(metric="latency_p50")),
        tables.Column("latency p90", _results(metric="latency_p90")),
        tables.Column("latency p99", _results(metric="latency_p99")),
        tables.Column("throughput", _results(metric="throughput")),
        tables.Column("accuracy", accuracy),
        tables.Column("target", missed, words=thresholds.TARGET),
        tables.Column("energy", _results(metric="energy")),
        tables.Column("peak memory", _results(metric="peak_memory")),
        size=WIDE,
    )


def latency_over_time() -> dashboard.Panel:
    """Return the chart of latencies over time."""
    lowest = promql.extreme("bottomk", MANY, _results(metric="latency_p90"))
    about = (
        f"90th percentile of latency of the {MANY} fastest, as newest results replace each other."
    )
    query = Query(lowest, "{{device}} {{stack}} {{precision}} {{workload}}")
    return panels.lines("Latency over time", about, query, points=POINTS_OF_RESULTS)


def throughput_over_time() -> dashboard.Panel:
    """Return the chart of throughputs over time."""
    highest = promql.extreme("topk", MANY, _results(metric="throughput"))
    about = f"Samples a second of the {MANY} fastest, as newest results replace each other."
    query = Query(highest, "{{device}} {{stack}} {{precision}} {{workload}} {{scenario}}")
    return panels.lines("Throughput over time", about, query, points=POINTS_OF_RESULTS)


def _against_device() -> Expr:
    base = last(names.RESULT, **_chosen(device=BASE_DEVICE.wanted, metric=RANKING))
    return promql.times_better(
        _results(metric=RANKING), base, "workload", "stack", "scenario", "precision"
    )


def _results(**where: Wanted) -> Expr:
    """Return the chosen results, of real or of virtual devices."""
    return promql.with_info(last(names.RESULT, **_chosen(**where)), virtual=VIRTUAL.wanted)


def _chosen(**where: Wanted) -> dict[str, Wanted]:
    chosen = (WORKLOAD, DEVICE, STACK, SCENARIO, PRECISION)
    return {choice.name: choice.wanted for choice in chosen} | where
