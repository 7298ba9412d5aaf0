"""The dashboard "Sweep live": current runs, their progress, and outcomes of attempts."""

from __future__ import annotations

from grafana_foundation_sdk.models import dashboard, units

from controller.dashboards import links, panels, promql, tables, thresholds
from controller.dashboards.board import Board, Row, quarantines, sweeps
from controller.dashboards.panels import Query, Size
from controller.dashboards.promql import LATELY, Expr, last, like
from controller.dashboards.variables import Choice
from controller.metrics import names
from controller.metrics.names import Metric

SWEEP = Choice("sweep", "Sweep", names.SWEEP_RUNS, "sweep")
LIVE = "{{name}}{{virtual}} {{workload}} {{stack}} {{scenario}}"


def sweep_live() -> Board:
    """Return the dashboard to watch while a sweep runs."""
    return Board(
        links.SWEEP,
        "Sweep live",
        "What is being measured now, what waits, and how attempts end.",
        (SWEEP,),
        (
            Row("Progress", (queued(), running(), left(), pace(), vain(), open_runs())),
            Row("Now", (progress(), at_work(), steps(), queries(), loss(), heat())),
            Row("How it goes", (outcomes(), dispatch(), durations(), missed())),
        ),
        (sweeps(), quarantines()),
        since="now-30m",
        refresh="5s",
    )


def queued() -> dashboard.Panel:
    """Return the number of queued runs, as a panel."""
    about = "Runs that wait, of all sweeps."
    return panels.numbers("Queued", about, Query(last(names.RUNS_QUEUED)), width=4)


def running() -> dashboard.Panel:
    """Return the number of leased runs, as a panel."""
    about = "Runs at work, of all sweeps."
    return panels.numbers("At work", about, Query(last(names.RUNS_LEASED)), width=4)


def left() -> dashboard.Panel:
    """Return the estimated time left at the present pace, as a panel."""
    todo = promql.plus(last(names.RUNS_QUEUED), last(names.RUNS_LEASED))
    pace = promql.per_second(names.RUNS, LATELY, outcome=_MEASURED)
    about = "Open runs divided by the pace of the last 30 minutes; infinite before the first ends."
    query = Query(promql.quotient(todo, pace, units.DurationSeconds))
    return panels.numbers("Time left", about, query, width=4)


def pace() -> dashboard.Panel:
    """Return the number of runs done an hour, as a panel."""
    about = "Attempts that measured something in the last 30 minutes: valid, disturbed or invalid."
    query = Query(promql.increase(names.RUNS, LATELY, outcome=_MEASURED))
    return panels.numbers("Measured lately", about, query, width=4)


def vain() -> dashboard.Panel:
    """Return the number of failed attempts, as a panel."""
    about = "Attempts that failed or were lost in the last 30 minutes."
    query = Query(promql.increase(names.RUNS, LATELY, outcome=like("failed|lost")))
    return panels.numbers("In vain lately", about, query, steps=thresholds.NONE_IS_GOOD, width=4)


def open_runs() -> dashboard.Panel:
    """Return the chart of open runs of each sweep."""
    runs = last(names.SWEEP_RUNS, sweep=SWEEP.wanted)
    about = "Open runs of each sweep, queued and leased; a sweep that is over has none."
    query = Query(runs, "{{sweep}} {{state}}")
    return panels.lines("Open runs", about, query, stacked=True, size=Size(24))


def progress() -> dashboard.Panel:
    """Return the panel of each run's progress."""
    about = "Done part of each run that is being measured."
    return panels.gauges("Progress of runs", about, _live(names.RUN_PROGRESS), full=1)


def at_work() -> dashboard.Panel:
    """Return the table of busy devices and their runs."""
    runs = promql.with_info(last(names.RUN_PROGRESS), "name", "model", "virtual")
    labels = ("name", "device", "model", "virtual", *names.RUN_LABELS[1:])
    about = "Devices that measure now, and what."
    return tables.columns(
        "Devices at work", about, labels, tables.Column("done", runs), size=panels.HALF
    )


def steps() -> dashboard.Panel:
    """Return the chart of the speed of training runs."""
    about = "Training steps a second, as the runs tell them."
    return panels.lines("Training steps", about, _live(names.RUN_STEPS), live=True)


def queries() -> dashboard.Panel:
    """Return the chart of the speed of inference runs."""
    about = "Queries a second, as the runs tell them."
    return panels.lines("Queries", about, _live(names.RUN_QUERIES), live=True)


def loss() -> dashboard.Panel:
    """Return the chart of the loss of training runs."""
    about = "Training loss of what runs. It should fall, or at least be finite."
    return panels.lines("Loss", about, _live(names.RUN_LOSS), live=True)


def heat() -> dashboard.Panel:
    """Return the chart of the hottest sensor of each measuring device."""
    hottest = promql.highest(names.DEVICE_TEMPERATURE, "device")
    busy = promql.only(hottest, promql.being(names.DEVICE_STATE, 1, state="busy"), "device")
    top = promql.marked(promql.extreme("topk", 20, busy))
    about = "The hottest sensor of each device, of the twenty hottest."
    query = Query(top, "{{name}}{{virtual}}")
    return panels.lines("Heat", about, query, steps=thresholds.CELSIUS, live=True)


def outcomes() -> dashboard.Panel:
    """Return the chart of outcomes of attempts."""
    ended = promql.per_minute(names.RUNS, "outcome", "blame")
    about = (
        "Attempts that have ended, by outcome and cause. Invalid: it broke its run rules; "
        "disturbed: it met them on a machine that was not quiet. Neither is shown as a result."
    )
    query = Query(ended, "{{outcome}} (blame {{blame}})")
    return panels.lines("Attempts ended", about, query, stacked=True)


def dispatch() -> dashboard.Panel:
    """Return the histogram of the time that runs waited for a device."""
    waited = promql.buckets(names.DISPATCH_SECONDS, promql.RATE_WINDOW)
    about = "How long the runs that got a device had waited for it."
    return panels.spread("Wait for a device", about, waited, units.Seconds)


def durations() -> dashboard.Panel:
    """Return the histogram of the durations of runs."""
    labels = ("workload", "stack", "scenario")
    taken = promql.quantile(names.RUN_SECONDS, 0.9, LATELY, *labels)
    return panels.lines(
        "Duration of runs",
        "90th percentile from lease to outcome, over the last 30 minutes; the dots are single runs "
        "and name them.",
        Query(taken, "{{workload}} {{stack}} {{scenario}}", exemplars=True),
    )


def missed() -> dashboard.Panel:
    """Return the table of newest results below their quality target."""
    target = promql.with_info(last(names.QUALITY_MISSED), "name", "virtual")
    labels = ("name", *names.RESULT_LABELS, "virtual")
    about = "Whether each newest result reaches the quality target of its workload."
    column = tables.Column("target", target, words=thresholds.TARGET)
    return tables.columns("Quality targets", about, labels, column, size=panels.HALF)


_MEASURED = like("valid|disturbed|invalid")


def _live(metric: Metric) -> Query:
    """Return the query for a live gauge of every run, with virtual devices marked."""
    shown: Expr = promql.marked(last(metric))
    return Query(shown, LIVE)
