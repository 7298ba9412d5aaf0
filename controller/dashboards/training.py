"""The dashboard "Training": steps, losses, and the effect of number formats and stacks."""

from __future__ import annotations

from dataclasses import replace
from typing import Literal

from grafana_foundation_sdk.models import dashboard

from controller.dashboards import links, panels, profiles, promql, ratios, tables, thresholds
from controller.dashboards.board import Board, Row, quarantines, sweeps
from controller.dashboards.panels import POINTS_OF_RESULTS, Query
from controller.dashboards.promql import RANKING, Expr, Wanted, kept, last
from controller.dashboards.ratios import Baseline
from controller.dashboards.variables import Choice, device_choice, work
from controller.metrics import names
from controller.metrics.names import Metric

SCENARIO = "training"
OF_TRAINING: tuple[tuple[str, Wanted], ...] = (("scenario", SCENARIO),)
WORKLOAD = Choice("workload", "Workload", names.RESULT_TIME, "workload", OF_TRAINING)
OF_WORKLOAD = (*OF_TRAINING, ("workload", WORKLOAD.wanted))
TRAINED = last(names.RESULT_TIME, scenario=SCENARIO, workload=WORKLOAD.wanted)
DEVICE = device_choice(names.RESULT_TIME, promql.with_info(TRAINED, "name"))
STACK = Choice("stack", "Stack", names.RESULT_TIME, "stack", OF_WORKLOAD)
PRECISION = Choice("precision", "Precision", names.RESULT_TIME, "precision", OF_WORKLOAD)
BASE = replace(PRECISION, name="baseline_precision", title="Baseline precision", many=False)
PROFILED: dict[str, Wanted] = {
    "scenario": SCENARIO,
    **{choice.name: choice.wanted for choice in (WORKLOAD, DEVICE, STACK, PRECISION)},
}
LIVE = "{{name}}{{virtual}} {{workload}} {{stack}}"
RESULT = "{{name}}{{virtual}} {{model}} {{stack}} {{precision}}"


def training() -> Board:
    """Return the dashboard of training runs."""
    return Board(
        links.TRAINING,
        "Training",
        "Training runs: live steps and losses, newest step times and profiles, and what precision "
        "is worth.",
        (WORKLOAD, DEVICE, STACK, PRECISION, BASE, WORK),
        (
            Row("Now", (progress(), steps(), loss(), heat())),
            Row("Newest results", (newest(), step_times(), throughput())),
            Row("What precision is worth", (by_precision(),)),
            Row(
                "Profiles",
                (profiles.limits(PROFILED), profiles.primitives(PROFILED | {"work": WORK.wanted})),
            ),
            Row("Over time", (step_time_over_time(), loss_over_time())),
        ),
        (sweeps(), quarantines()),
    )


def progress() -> dashboard.Panel:
    """Return the panel of each training run's progress."""
    about = "Done part of each training run."
    return panels.gauges("Progress", about, _live(names.RUN_PROGRESS), full=1)


def steps() -> dashboard.Panel:
    """Return the chart of current steps a second."""
    about = "Training steps a second, as the runs tell them."
    return panels.lines("Steps now", about, _live(names.RUN_STEPS), live=True)


def loss() -> dashboard.Panel:
    """Return the chart of current losses."""
    about = "Loss of each training run, step by step. It should fall, or at least be finite."
    return panels.lines("Loss now", about, _live(names.RUN_LOSS), live=True)


def heat() -> dashboard.Panel:
    """Return the chart of the chosen devices' temperatures."""
    sensors = promql.highest(names.DEVICE_TEMPERATURE, "device", device=DEVICE.wanted)
    top = promql.marked(promql.extreme("topk", 20, sensors))
    about = "The hottest sensor of each chosen device, of the twenty hottest."
    query = Query(top, "{{name}}{{virtual}}")
    return panels.lines("Heat", about, query, steps=thresholds.CELSIUS, live=True)


def newest() -> dashboard.Panel:
    """Return the table of newest results."""
    labels = ("name", "device", "virtual", "workload", "stack", "precision", "work")
    return tables.columns(
        "Newest results",
        "The newest valid result of each device, work, stack and precision. Step time is the "
        "median of the timed steps, throughput is in the workload's unit, loss is the last step's.",
        labels,
        tables.Column("step time", _plain("step_time")),
        tables.Column("throughput", _plain("throughput")),
        tables.Column("loss", _plain("loss")),
        tables.Column("peak memory", _plain("peak_memory")),
    )


def step_times() -> dashboard.Panel:
    """Return the panel of the shortest step times."""
    about = "Median step time at one work, of the 30 fastest; shorter is better."
    return panels.gauges("Step time: ${work:text}", about, _extreme("bottomk", 30, "step_time"))


def throughput() -> dashboard.Panel:
    """Return the panel of the highest throughputs."""
    about = "Throughput at one work, in the workload's unit, of the 30 fastest; longer is better."
    return panels.gauges("Throughput: ${work:text}", about, _extreme("topk", 30, "throughput"))


def by_precision() -> dashboard.Panel:
    """Return the table of results relative to the baseline precision."""

    def ranked(metric: Metric, **where: Wanted) -> Expr:
        return last(metric, **_chosen(scenario=kept(SCENARIO), metric=RANKING, **where))

    base = Baseline(
        lambda metric: ranked(metric, precision=BASE.wanted),
        lambda metric: ranked(metric, precision=promql.both(PRECISION.wanted, BASE.wanted)),
    )
    found = ratios.times_better(ranked, base, "device", "workload", "stack", "scenario")
    return tables.heat_map(
        "Against $baseline_precision, on the same device and stack",
        "How many times better each precision is than the baseline's at the same work. Above 1 is "
        "better; see the losses for what it costs. Not resolved: 1 is inside the 95 % interval, or "
        "a side was not repeated in its sweep.",
        ratios.with_info(found, "name"),
        ("name", "stack"),
        ("workload", "work", "precision"),
    )


def primitives() -> dashboard.Panel:
    """Return in which primitives the profiles of the chosen work spend most."""
    return profiles.primitives(PROFILED | {"work": WORK.wanted})


def step_time_over_time() -> dashboard.Panel:
    """Return the chart of step times over time."""
    about = "Median step time at one work, of the 20 fastest, as newest results replace each other."
    return panels.lines(
        "Step time over time: ${work:text}",
        about,
        _extreme("bottomk", 20, "step_time"),
        points=POINTS_OF_RESULTS,
    )


def loss_over_time() -> dashboard.Panel:
    """Return the chart of final losses over time."""
    about = (
        "Loss at the end of the run at one work, of the 20 lowest; a jump between releases is a "
        "regression."
    )
    return panels.lines(
        "Final loss over time: ${work:text}",
        about,
        _extreme("bottomk", 20, "loss"),
        points=POINTS_OF_RESULTS,
    )


def _live(metric: Metric) -> Query:
    chosen = {"workload": WORKLOAD.wanted, "device": DEVICE.wanted, "stack": STACK.wanted}
    return Query(promql.marked(last(metric, scenario=SCENARIO, **chosen)), LIVE)


def _extreme(which: Literal["topk", "bottomk"], number: int, metric: str) -> Query:
    of_work = last(names.RESULT, **_chosen(scenario=SCENARIO, metric=metric, work=WORK.wanted))
    return Query(promql.marked(promql.extreme(which, number, of_work), "model"), RESULT)


def _result(metric: str) -> Expr:
    return last(names.RESULT, **_chosen(scenario=SCENARIO, metric=metric))


def _plain(metric: str) -> Expr:
    return promql.with_info(_result(metric), "name", "virtual")


def _chosen(**where: Wanted) -> dict[str, Wanted]:
    chosen = (WORKLOAD, DEVICE, STACK, PRECISION)
    return {choice.name: choice.wanted for choice in chosen} | where


WORK = work("work", "Work", _result("step_time"))
