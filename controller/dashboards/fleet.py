"""The dashboard "Fleet overview": health, current work, and the best results."""

from __future__ import annotations

from grafana_foundation_sdk.models import dashboard

from controller.dashboards import links, panels, promql, ratios, tables, thresholds
from controller.dashboards.board import Board, Row, quarantines, sweeps
from controller.dashboards.panels import Query
from controller.dashboards.promql import LATELY, kept, last
from controller.dashboards.units import RANKING_METRICS
from controller.dashboards.variables import VIRTUAL, Choice
from controller.metrics import names

KIND = Choice("kind", "Kind", names.DEVICE_INFO, "kind")
MODEL = Choice("model", "Model", names.DEVICE_INFO, "model", (("kind", KIND.wanted),))


def fleet() -> Board:
    """Return the dashboard of the whole fleet."""
    return Board(
        links.FLEET,
        "Fleet overview",
        "Devices, agents, the queue and how attempts end; the best device for each workload.",
        (KIND, MODEL, VIRTUAL),
        (
            Row("Now", (agents_up(), agents_down(), queued(), running(), oldest(), missed())),
            Row("Best", (winners(), tables.works())),
            Row("Work", (outcomes(), failed_share(), dispatch(), durations())),
            Row("Devices", (states(), hottest(), emptiest(), throttled(), devices())),
        ),
        (sweeps(), quarantines()),
    )


def agents_up() -> dashboard.Panel:
    """Return the number of agents that answer, as a panel."""
    up = promql.or_zero(promql.over("sum", last(names.AGENT_UP)))
    about = "Agents that answer the controller. None: no host can take work."
    return panels.numbers("Agents up", about, Query(up), steps=thresholds.SOME_IS_GOOD, width=4)


def agents_down() -> dashboard.Panel:
    """Return the number of agents that don't answer, as a panel."""
    away = promql.being(names.AGENT_UP, 0)
    down = promql.without(away, last(names.AGENT_HOLD), "agent")
    about = (
        "Agents whose lease ran out: their host is down, unreachable, or lost its network. Drained "
        "and revoked ones are left out, as by the alert AgentDown."
    )
    query = Query(promql.or_zero(promql.count(down)))
    return panels.numbers("Agents down", about, query, steps=thresholds.NONE_IS_GOOD, width=4)


def queued() -> dashboard.Panel:
    """Return the number of queued runs, as a panel."""
    about = "Runs that wait for a device that matches and is free."
    return panels.numbers("Runs queued", about, Query(last(names.RUNS_QUEUED)), width=4)


def running() -> dashboard.Panel:
    """Return the number of leased runs, as a panel."""
    about = "Runs that an agent holds a lease on: being prepared, measured or handed in."
    return panels.numbers("Runs at work", about, Query(last(names.RUNS_LEASED)), width=4)


def oldest() -> dashboard.Panel:
    """Return the age of the oldest queued run, as a panel."""
    about = "Age of the oldest queued run. High while devices are free: no device matches it."
    query = Query(last(names.QUEUE_OLDEST))
    return panels.numbers("Longest wait", about, query, steps=thresholds.WAIT_S, width=4)


def missed() -> dashboard.Panel:
    """Return the number of newest results below their quality target, as a panel."""
    about = "Newest results below the quality target of their workload: their speed does not count."
    query = Query(promql.or_zero(promql.over("sum", last(names.QUALITY_MISSED))))
    return panels.numbers("Targets missed", about, query, steps=thresholds.NONE_IS_GOOD, width=4)


def winners() -> dashboard.Panel:
    """Return the best newest result of each work."""
    of_work = ("workload", "scenario", "work")
    labels = (*of_work, "model", "soc", "name", "device", "stack", "precision")

    def best(metric: str) -> promql.Expr:
        results = last(names.RESULT, metric=kept(metric))
        those = promql.with_info(results, virtual=VIRTUAL.wanted)
        return promql.with_info(ratios.best(metric, those, *of_work), "model", "soc", "name")

    return tables.columns(
        "Best device for each work",
        "The device, stack and precision with the best newest valid result in the metric that "
        "ranks the scenario, which is the one with a number here; throughput is in the workload's "
        "unit. The panel Works says what each work is. Real and virtual devices are never "
        "compared.",
        labels,
        *(tables.Column(metric.replace("_", " "), best(metric)) for metric in RANKING_METRICS),
    )


def outcomes() -> dashboard.Panel:
    """Return the chart of outcomes of attempts."""
    ended = promql.per_minute(names.RUNS, "outcome", "blame")
    about = (
        "Attempts that have ended, by outcome and cause. Invalid: it broke its run rules; "
        "disturbed: it met them on a machine that was not quiet. Neither is shown as a result."
    )
    query = Query(ended, "{{outcome}} (blame {{blame}})")
    return panels.lines("Attempts ended", about, query, stacked=True)


def failed_share() -> dashboard.Panel:
    """Return the chart of the share of failed attempts."""
    bad = promql.increase(names.RUNS, LATELY, outcome=promql.like("failed|lost"))
    share = promql.share(promql.or_zero(bad), promql.increase(names.RUNS, LATELY))
    about = "Share of the attempts of the last 30 minutes that failed or were lost."
    return panels.lines(
        "Attempts in vain", about, Query(share, "failed or lost"), steps=thresholds.FAILED
    )


def dispatch() -> dashboard.Panel:
    """Return the histogram of the time that runs wait for a device."""
    return panels.lines(
        "Wait for a device",
        "From becoming ready to wait to being leased, over the last 30 minutes.",
        Query(promql.quantile(names.DISPATCH_SECONDS, 0.5, LATELY), "median"),
        Query(promql.quantile(names.DISPATCH_SECONDS, 0.99, LATELY), "99th percentile"),
    )


def durations() -> dashboard.Panel:
    """Return the histogram of the durations of runs."""
    taken = promql.quantile(names.RUN_SECONDS, 0.9, LATELY, "workload", "scenario")
    return panels.lines(
        "Duration of runs",
        "90th percentile from lease to outcome, over the last 30 minutes; the dots are single runs "
        "and name them.",
        Query(taken, "{{workload}} {{scenario}}", exemplars=True),
    )


def states() -> dashboard.Panel:
    """Return the chart of the number of devices in each state."""
    now = promql.being(names.DEVICE_STATE, 1)
    about = "Devices by state. Quarantined: it failed too often in a row, or a person wants it."
    query = Query(promql.count(_of_chosen(now), "state"), "{{state}}")
    return panels.lines("Devices by state", about, query, stacked=True)


def hottest() -> dashboard.Panel:
    """Return the panel of the hottest devices."""
    hot = promql.highest(names.DEVICE_TEMPERATURE, "device")
    top = promql.marked(promql.extreme("topk", 10, _of_chosen(hot)))
    about = "The ten devices with the hottest sensor, when last read."
    query = Query(top, "{{name}}{{virtual}}")
    return panels.gauges("Hottest devices", about, query, steps=thresholds.CELSIUS, full=110)


def emptiest() -> dashboard.Panel:
    """Return the panel of the phones with the least charge."""
    lowest = promql.extreme("bottomk", 10, _of_chosen(last(names.DEVICE_BATTERY)))
    low = promql.marked(lowest)
    about = (
        "The ten phones with the least charge; a phone with too little waits before it measures."
    )
    query = Query(low, "{{name}}{{virtual}}")
    return panels.gauges("Lowest batteries", about, query, steps=thresholds.BATTERY, full=1)


def throttled() -> dashboard.Panel:
    """Return the chart of the number of phones in each thermal status."""
    status = last(names.DEVICE_THERMAL_STATUS)
    hot = _of_chosen(promql.filtered(status, ">=", names.THROTTLES_FROM))
    about = (
        f"Phones whose thermal status is {thresholds.THROTTLING} or worse: Android slows them down."
    )
    return panels.lines(
        "Phones that throttle", about, Query(promql.or_zero(promql.count(hot)), "phones")
    )


def devices() -> dashboard.Panel:
    """Return the table of all devices with facts and state."""
    now = promql.being(names.DEVICE_STATE, 1)
    labels = ("name", "device", "state", "kind", "model", "soc", "host", "virtual")
    of_info = [label for label in labels if label not in now.labels]
    about = "Every device, what it is and what it does now."
    return tables.words_of("Devices", about, _of_chosen(now, *of_info), labels)


def _of_chosen(expr: promql.Expr, *labels: str) -> promql.Expr:
    chosen = {"kind": KIND.wanted, "model": MODEL.wanted}
    return promql.with_info(expr, *labels, **chosen)
