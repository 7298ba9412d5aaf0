from __future__ import annotations

import pytest

from agents.metrics import EXPORTED, AgentMetrics, live_values
from controller.contracts.wire import Progress
from controller.metrics import names
from controller.metrics.families import gauge_text
from tests.support import builders
from tests.support.exposition import plain

RUN = {"device": "cpu-1", "workload": "resnet", "stack": "torch", "scenario": "training"}


def progress(done: int = 1, total: int = 4, **values: float) -> Progress:
    return Progress(phase="training", done=done, total=total, values=values)


def shown(metrics: AgentMetrics) -> dict[str, list[tuple[dict[str, str], float]]]:
    """Return the series of each metric that has some."""
    families = plain(gauge_text(metrics.gauges()))
    assert [f.name for f in families] == [metric.name for metric in EXPORTED]
    return {f.name: [(s.labels, s.value) for s in f.samples] for f in families if f.samples}


@pytest.mark.parametrize(
    ("said", "expected"),
    [
        (
            progress(step_time=0.25, loss=1.5),
            {names.RUN_PROGRESS: 0.25, names.RUN_STEPS: 4.0, names.RUN_LOSS: 1.5},
        ),
        (progress(4, throughput=180.0), {names.RUN_PROGRESS: 1.0, names.RUN_QUERIES: 180.0}),
        (progress(0, step_time=0.0), {names.RUN_PROGRESS: 0.0}),
        (progress(0, 0), {}),
        (progress(top1=0.5), {names.RUN_PROGRESS: 0.25}),
    ],
    ids=["training", "on a device", "no time has passed", "nothing to do", "unknown value"],
)
def test_what_progress_says_as_gauges(said: Progress, expected: dict[names.Metric, float]) -> None:
    assert live_values(said) == expected


def test_a_live_run_shows_its_newest_values_and_nothing_after_its_end() -> None:
    metrics = AgentMetrics()
    job = builders.job()
    metrics.progressed(job, progress(1, step_time=0.5, loss=2.0))
    metrics.progressed(job, progress(2, step_time=0.25))
    assert shown(metrics) == {
        "benchfarm_run_progress_ratio": [(RUN, 0.5)],
        "benchfarm_run_steps_per_second": [(RUN, 4.0)],
    }
    metrics.ended(job.ref)
    assert shown(metrics) == {}
    metrics.ended(job.ref)


def test_what_was_exported_does_not_change_while_it_is_rendered() -> None:
    metrics = AgentMetrics()
    job = builders.job()
    metrics.progressed(job, progress())
    exported = metrics.gauges()
    metrics.ended(job.ref)
    assert "benchfarm_run_progress_ratio{" in gauge_text(exported)


def test_conditions_as_last_read() -> None:
    metrics = AgentMetrics()
    metrics.read("phone-1", {"battery_percent": 50, "battery_celsius": 30.0})
    metrics.read(
        "phone-1",
        {
            "battery_percent": 49,
            "battery_celsius": 31.5,
            "charging": True,
            "thermal_status": "MODERATE",
            "celsius_skin": 38.0,
            "celsius_CPU 0": 51.0,
        },
    )
    metrics.read("cpu-1", {"celsius_coretemp": 66.0})
    assert shown(metrics) == {
        "benchfarm_device_battery_ratio": [({"device": "phone-1"}, 0.49)],
        "benchfarm_device_thermal_status": [({"device": "phone-1"}, 2.0)],
        "benchfarm_device_temperature_celsius": [
            ({"device": "phone-1", "sensor": "battery"}, 31.5),
            ({"device": "phone-1", "sensor": "skin"}, 38.0),
            ({"device": "phone-1", "sensor": "CPU 0"}, 51.0),
            ({"device": "cpu-1", "sensor": "coretemp"}, 66.0),
        ],
    }


def test_a_sensor_named_battery_is_no_second_series_of_the_battery() -> None:
    metrics = AgentMetrics()
    metrics.read("phone-1", {"celsius_battery": 29.0, "battery_celsius": 31.5})
    metrics.read("phone-2", {"celsius_battery": 29.0})
    assert shown(metrics) == {
        "benchfarm_device_temperature_celsius": [
            ({"device": "phone-1", "sensor": "battery"}, 31.5),
            ({"device": "phone-2", "sensor": "battery"}, 29.0),
        ],
    }


def test_a_thermal_status_android_does_not_name_is_left_out() -> None:
    metrics = AgentMetrics()
    metrics.read("phone-1", {"thermal_status": "9"})
    assert shown(metrics) == {}


def test_a_device_that_is_gone_takes_its_conditions_with_it() -> None:
    metrics = AgentMetrics()
    for device in ("phone-1", "phone-2"):
        metrics.read(device, {"battery_percent": 50})
    metrics.keep({"phone-2"})
    assert shown(metrics) == {"benchfarm_device_battery_ratio": [({"device": "phone-2"}, 0.5)]}
