"""The dashboard "Mobile suite": latency, throughput, accuracy and heat of phones."""

from __future__ import annotations

from dataclasses import replace

from grafana_foundation_sdk.models import dashboard

from controller.contracts.suite_session import NOT_VERIFIED
from controller.dashboards import links, panels, promql, ratios, tables, thresholds
from controller.dashboards.board import Annotation, Board, Row, quarantines, sweeps
from controller.dashboards.panels import Query
from controller.dashboards.promql import RANKING, Expr, Wanted, last
from controller.dashboards.ratios import Baseline
from controller.dashboards.variables import VIRTUAL, Choice, device_choice, work
from controller.metrics import names
from controller.metrics.names import Metric

KIND = "android"


def _phones(expr: Expr, *labels: str) -> Expr:
    """Return only the series of phones, real or virtual ones."""
    return promql.with_info(expr, *labels, kind=KIND, virtual=VIRTUAL.wanted)


PHONES = last(names.DEVICE_INFO, kind=KIND, virtual=VIRTUAL.wanted)
PHONE = replace(device_choice(names.DEVICE_INFO, PHONES), title="Phone")
RESULTS = last(names.RESULT_TIME, device=PHONE.wanted)
MEASURED = _phones(RESULTS)
WORKLOAD, SCENARIO, PRECISION = (
    Choice(label, label.capitalize(), names.RESULT_TIME, label, among=MEASURED)
    for label in ("workload", "scenario", "precision")
)
BASE = replace(
    device_choice(names.RESULT_TIME, _phones(RESULTS, "name")),
    name="baseline_device",
    title="Baseline phone",
    many=False,
)

FACTS = ("name", "model", "soc")
LEGEND = "{{name}} {{model}} {{soc}} {{stack}} {{precision}}"


def mobile() -> Board:
    """Return the dashboard of phones."""
    return Board(
        links.MOBILE,
        "Mobile suite",
        "Phones under MLPerf's scenarios (unverified): single-stream latency, offline throughput, "
        "accuracy beside them, and the battery, heat and throttling they were measured under. Real "
        f"and virtual phones are never compared. {NOT_VERIFIED}",
        (VIRTUAL, PHONE, WORKLOAD, SCENARIO, PRECISION, BASE, LATENCY_WORK, THROUGHPUT_WORK),
        (
            Row("Which phone", (by_phone(), newest())),
            Row("Speed", (latency(), throughput())),
            Row("Delegates", (delegates(),)),
            Row("Now", (progress(), queries())),
            Row("Conditions", (thermal(), temperature(), battery(), throttled())),
        ),
        (sweeps(), quarantines(), throttling()),
    )


def by_phone() -> dashboard.Panel:
    """Return the heat map of results relative to the baseline phone."""
    same = ("workload", "stack", "scenario", "precision")

    def results(metric: Metric, **where: Wanted) -> Expr:
        return last(metric, **_chosen(metric=RANKING, **where))

    base = Baseline(
        lambda metric: last(metric, **_chosen(device=BASE.wanted, metric=RANKING)),
        lambda metric: results(metric, device=promql.both(PHONE.wanted, BASE.wanted)),
    )
    labels = ("name", "model")
    found = ratios.times_better(results, base, *same)
    return tables.heat_map(
        "Against the phone ${baseline_device:text}",
        "How many times better each newest result is than the baseline phone's, same work, stack "
        "and precision, in the metric that ranks the scenario. Above 1 is better. Not resolved: 1 "
        "is inside the 95 % interval, or a side was not repeated in its sweep.",
        ratios.Judged(_phones(found.every, *labels), _phones(found.settled, *labels)),
        (*labels, "stack"),
        ("workload", "scenario", "work", "precision"),
    )


def newest() -> dashboard.Panel:
    """Return the table of newest results."""
    reference, decibels = ratios.in_decibels(_result(metric="reference_accuracy"))
    return tables.columns(
        "Newest results",
        "The newest valid result of each phone. Single-stream gives latencies, offline gives "
        "throughput, in the workload's unit; both are worth nothing below the quality target. Of "
        "upscaled images, PSNR is the accuracy. Reference is that of the host's own runtime on the "
        "same samples, agreement the share of answers that are the reference's. Energy is that of "
        "a query above idle, in joules; it is empty where it is unknown.",
        ("name", *names.RESULT_LABELS, "model", "soc"),
        tables.Column("latency p50", _result(metric="latency_p50")),
        tables.Column("latency p90", _result(metric="latency_p90")),
        tables.Column("latency p99", _result(metric="latency_p99")),
        tables.Column("throughput", _result(metric="throughput")),
        tables.Column("energy", _result(metric="energy")),
        *tables.quality_columns(lambda metric: _result(metric=metric)),
        tables.Column("reference", reference),
        tables.Column("reference PSNR", decibels),
        tables.Column(
            "agreement", _result(metric="reference_agreement"), steps=thresholds.AGREEMENT
        ),
        tables.Column(
            "target",
            _phones(last(names.QUALITY_MISSED, **_chosen()), *FACTS),
            words=thresholds.TARGET,
        ),
        tables.Column("age", _phones(promql.age(names.RESULT_TIME, **_chosen()), *FACTS)),
    )


def latency() -> dashboard.Panel:
    """Return the panel of the lowest latencies."""
    of_work = _result(metric="latency_p90", work=LATENCY_WORK.wanted)
    about = "90th percentile of latency at one work, of the 30 fastest; shorter is better."
    query = Query(promql.extreme("bottomk", 30, of_work), LEGEND)
    return panels.gauges("Latency: ${latency_work:text}", about, query)


def throughput() -> dashboard.Panel:
    """Return the panel of the highest throughputs."""
    of_work = _result(metric="throughput", work=THROUGHPUT_WORK.wanted)
    about = "Throughput at one work, in the workload's unit, of the 30 fastest; longer is better."
    query = Query(promql.extreme("topk", 30, of_work), LEGEND)
    return panels.gauges("Throughput: ${throughput_work:text}", about, query)


def delegates() -> dashboard.Panel:
    """Return the table of delegates on each phone."""
    labels = ("name", "model", "virtual")
    where = {choice.name: choice.wanted for choice in (PHONE, WORKLOAD, PRECISION)}
    return tables.delegates(
        ("name", *names.DELEGATE_LABELS, "model", "virtual"),
        _phones(last(names.DEVICE_CAPABILITY, **where), *labels),
        _phones(last(names.DEVICE_DELEGATED, **where), *labels),
    )


def progress() -> dashboard.Panel:
    """Return the panel of the progress of runs on phones."""
    query = Query(_live(names.RUN_PROGRESS), "{{name}} {{workload}} {{scenario}}")
    return panels.gauges("Progress", "Done part of each run on a phone.", query, full=1)


def queries() -> dashboard.Panel:
    """Return the chart of the current rate of runs on phones."""
    query = Query(_live(names.RUN_QUERIES), "{{name}} {{workload}} {{scenario}}")
    about = "Queries a second as LoadGen issues them. A fall while it gets hot is throttling."
    return panels.lines("Queries now", about, query, live=True)


def thermal() -> dashboard.Panel:
    """Return the panel of the thermal status of the warmest phones."""
    status = _phones(last(names.DEVICE_THERMAL_STATUS, device=PHONE.wanted), "name")
    query = Query(promql.extreme("topk", 20, status), "{{name}}")
    about = (
        "Android's own word for its heat, of the twenty worst; from "
        f"{thresholds.THROTTLING} on it slows down."
    )
    return panels.states("Thermal status", about, query, words=thresholds.THERMAL)


def temperature() -> dashboard.Panel:
    """Return the chart of the hottest sensors."""
    sensors = _phones(last(names.DEVICE_TEMPERATURE, device=PHONE.wanted), "name")
    query = Query(promql.extreme("topk", 20, sensors), "{{name}} {{sensor}}")
    about = "The twenty hottest sensors of the chosen phones."
    steps = thresholds.PHONE_CELSIUS
    return panels.lines("Temperature", about, query, steps=steps, live=True)


def battery() -> dashboard.Panel:
    """Return the panel of the lowest batteries."""
    charge = _phones(last(names.DEVICE_BATTERY, device=PHONE.wanted), "name")
    query = Query(promql.extreme("bottomk", 20, charge), "{{name}}")
    about = "The twenty lowest batteries of the chosen phones."
    return panels.lines("Battery", about, query, steps=thresholds.BATTERY, live=True)


def throttled() -> dashboard.Panel:
    """Return the chart of the number of throttling phones."""
    query = Query(promql.or_zero(promql.count(_throttled())), "phones")
    about = f"Chosen phones whose thermal status is {thresholds.THROTTLING} or worse."
    return panels.lines("Phones that throttle", about, query, live=True)


def throttling() -> Annotation:
    """Return the annotation for phones that throttle."""
    return Annotation("Throttling", _throttled(), "orange", "{{name}}")


def _throttled() -> Expr:
    status = last(names.DEVICE_THERMAL_STATUS, device=PHONE.wanted)
    return _phones(promql.filtered(status, ">=", names.THROTTLES_FROM), "name")


def _live(metric: Metric) -> Expr:
    chosen = {"device": PHONE.wanted, "workload": WORKLOAD.wanted, "scenario": SCENARIO.wanted}
    return _phones(last(metric, **chosen), "name")


def _result(**where: Wanted) -> Expr:
    return _phones(last(names.RESULT, **_chosen(**where)), *FACTS)


def _chosen(**where: Wanted) -> dict[str, Wanted]:
    chosen = (PHONE, WORKLOAD, SCENARIO, PRECISION)
    return {choice.name: choice.wanted for choice in chosen} | where


LATENCY_WORK = work("latency_work", "Latency of", _result(metric="latency_p90"))
THROUGHPUT_WORK = work("throughput_work", "Throughput of", _result(metric="throughput"))
