"""The dashboard "Device": facts, state, conditions and results of one device."""

from __future__ import annotations

from dataclasses import replace

from grafana_foundation_sdk.models import dashboard

from controller.dashboards import links, panels, promql, tables, thresholds
from controller.dashboards.board import Board, Row, quarantines, sweeps
from controller.dashboards.panels import Query, Size
from controller.dashboards.promql import Expr, Wanted, kept, last
from controller.dashboards.variables import device_choice
from controller.metrics import names

DEVICE = replace(device_choice(names.DEVICE_INFO, last(names.DEVICE_INFO)), many=False)
THIS = kept(str(DEVICE.wanted))
LIVE = "{{workload}} {{stack}} {{scenario}}"
RESULT = "{{workload}} {{stack}} {{scenario}} {{precision}} {{work}}"
THIRD, QUARTER = Size(8), Size(6)


def device() -> Board:
    """Return the dashboard of one device."""
    return Board(
        links.DEVICE,
        "Device",
        "One device: what it is, what it does now, how warm and charged it is, what it measured.",
        (DEVICE,),
        (
            Row("What it is and does", (facts(), state())),
            Row("Now", (progress(), steps(), queries(), loss())),
            Row("Conditions", (temperature(), battery(), thermal())),
            Row("Results", (newest(), delegates(), times(), rates())),
        ),
        (sweeps(), quarantines()),
        refresh="5s",
    )


def facts() -> dashboard.Panel:
    """Return the panel of the device's facts."""
    labels = ("name", "device", "kind", "model", "soc", "host", "virtual")
    about = "What the device is. A virtual device is simulated: its numbers are never compared."
    info = last(names.DEVICE_INFO, device=THIS)
    return tables.words_of("Device", about, info, labels, Size(24, 4))


def state() -> dashboard.Panel:
    """Return the panel of the device's state over time."""
    now = promql.being(names.DEVICE_STATE, 1, device=THIS)
    about = (
        "Ready, busy, cooling, away (offline, unauthorized, lost), quarantined, reserved or "
        "drained."
    )
    return panels.states(
        "State", about, Query(now, "{{state}}"), words=thresholds.YES, size=Size(24, 6)
    )


def progress() -> dashboard.Panel:
    """Return the chart of the current run's progress."""
    done = last(names.RUN_PROGRESS, device=THIS)
    about = "Done part of what runs now; empty while nothing runs."
    return panels.gauges("Progress", about, Query(done, LIVE), full=1, size=QUARTER)


def steps() -> dashboard.Panel:
    """Return how fast the live training run is."""
    query = Query(last(names.RUN_STEPS, device=THIS), LIVE)
    about = "Training steps a second of what runs."
    return panels.lines("Steps now", about, query, live=True, size=QUARTER)


def queries() -> dashboard.Panel:
    """Return how fast the live inference run is."""
    query = Query(last(names.RUN_QUERIES, device=THIS), LIVE)
    about = "Queries a second of what runs."
    return panels.lines("Queries now", about, query, live=True, size=QUARTER)


def loss() -> dashboard.Panel:
    """Return the chart of the current run's loss."""
    query = Query(last(names.RUN_LOSS, device=THIS), LIVE)
    about = "Training loss of what runs, step by step."
    return panels.lines("Loss now", about, query, live=True, size=QUARTER)


def temperature() -> dashboard.Panel:
    """Return the chart of all sensors' temperatures."""
    query = Query(last(names.DEVICE_TEMPERATURE, device=THIS), "{{sensor}}")
    about = "Each sensor, when last read. Heat makes results slower, or INVALID."
    return panels.lines(
        "Temperature", about, query, steps=thresholds.CELSIUS, live=True, size=THIRD
    )


def battery() -> dashboard.Panel:
    """Return the chart of the battery's charge."""
    query = Query(last(names.DEVICE_BATTERY, device=THIS), "charge")
    about = "Charge of the battery, when last read; servers have none."
    return panels.lines("Battery", about, query, steps=thresholds.BATTERY, live=True, size=THIRD)


def thermal() -> dashboard.Panel:
    """Return the panel of Android's thermal status over time."""
    query = Query(last(names.DEVICE_THERMAL_STATUS, device=THIS), "thermal status")
    about = (
        f"Android's own word for its heat; from {thresholds.THROTTLING} on it slows programs down. "
        "Phones only."
    )
    return panels.states("Thermal status", about, query, words=thresholds.THERMAL, size=THIRD)


def newest() -> dashboard.Panel:
    """Return the table of newest results."""
    labels = ("workload", "stack", "scenario", "precision", "work")
    return tables.columns(
        "Newest results",
        "The newest valid result of each work, stack and precision; throughput is in the "
        "workload's unit. The target is judged on the newest result, valid or not.",
        labels,
        tables.Column("step time", _result(metric="step_time")),
        tables.Column("latency p90", _result(metric="latency_p90")),
        tables.Column("throughput", _result(metric="throughput")),
        *tables.quality_columns(lambda metric: _result(metric=metric)),
        tables.Column(
            "target", last(names.QUALITY_MISSED, device="$device"), words=thresholds.TARGET
        ),
        tables.Column("peak memory", _result(metric="peak_memory")),
        tables.Column("age", promql.age(names.RESULT_TIME, device="$device")),
    )


def delegates() -> dashboard.Panel:
    """Return the table of delegates on the device."""
    return tables.delegates(
        names.DELEGATE_LABELS[1:],
        last(names.DEVICE_CAPABILITY, device="$device"),
        last(names.DEVICE_DELEGATED, device="$device"),
    )


def times() -> dashboard.Panel:
    """Return the chart of result times over time."""
    return panels.lines(
        "Times",
        "Median step time and 90th percentile of latency, as newest results replace each other.",
        Query(_result(metric="step_time"), f"step time {RESULT}"),
        Query(_result(metric="latency_p90"), f"latency {RESULT}"),
    )


def rates() -> dashboard.Panel:
    """Return the chart of throughputs over time."""
    about = "Throughput in the workload's unit, as newest results replace each other."
    return panels.lines("Throughput", about, Query(_result(metric="throughput"), RESULT))


def _result(**where: Wanted) -> Expr:
    return last(names.RESULT, device="$device", **where)
