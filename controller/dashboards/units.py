"""The Grafana unit of every metric: by suffix in names.py, by name for results."""

from __future__ import annotations

from collections.abc import Mapping

from grafana_foundation_sdk.models import units

from controller.contracts.units import Unit
from controller.metrics.names import Metric

COUNT = units.Short
PER_SECOND = units.OpsPerSecond
SAMPLES_PER_SECOND = "suffix:samples/s"
PER_MINUTE = units.OpsPerMinute
SHARE = units.PercentUnit
TIMES_BETTER = "suffix:×"

UNIT_OF_RESULT: Mapping[str, Unit] = {
    "step_time": Unit.SECONDS,
    "latency_mean": Unit.SECONDS,
    "latency_p50": Unit.SECONDS,
    "latency_p90": Unit.SECONDS,
    "latency_p99": Unit.SECONDS,
    "throughput": Unit.SAMPLES_PER_SECOND,
    "kernel_time": Unit.SECONDS,
    "peak_memory": Unit.BYTES,
    "energy": Unit.JOULES,
    "loss": Unit.LOSS,
    "PSNR": Unit.DECIBELS,
    "reference_accuracy": Unit.FRACTION,
    "reference_agreement": Unit.FRACTION,
}
"""The metrics of results in panels, as scenarios name them; images count as samples."""

RANKING_METRICS = (
    *("step_time", "latency_mean", "latency_p90", "latency_p99", "throughput", "kernel_time"),
)
"""All metrics that rank a scenario of ours; users' programs with other metrics aren't ranked."""
UNRANKED_METRICS = ("loss_deviation", "time_to_target")
"""Metrics of scenarios that check a cell: being nearer to the reference makes no device better, and
how many steps a training takes is its seed's."""
ACCURACY_METRICS = ("top1", "mAP", "mIoU", "F1")
"""Metrics with quality targets that are shares, as MLPerf names them."""
QUALITY_METRICS = (*ACCURACY_METRICS, "PSNR")
"""All metrics with quality targets."""
DECIBELS = units.Decibel

_SHOWN_AS = {
    Unit.SECONDS: units.Seconds,
    Unit.SAMPLES_PER_SECOND: SAMPLES_PER_SECOND,
    Unit.BYTES: units.BytesIEC,
    Unit.JOULES: units.Joule,
    Unit.LOSS: units.NoUnit,
    Unit.DECIBELS: DECIBELS,
    Unit.FRACTION: units.PercentUnit,
}
_BY_SUFFIX = {
    "_seconds": units.Seconds,
    "_celsius": units.Celsius,
    "_ratio": units.PercentUnit,
    "_steps_per_second": "suffix:steps/s",
    "_queries_per_second": "suffix:queries/s",
    "_loss": units.NoUnit,
}


def unit_of_result(metric: str) -> str:
    """Return the Grafana unit of a result's metric; raises KeyError for one that is not listed."""
    return _SHOWN_AS[UNIT_OF_RESULT[metric]]


def unit_of(metric: Metric) -> str:
    """Return the Grafana unit of a metric, from the suffix with its base unit."""
    found = (unit for suffix, unit in _BY_SUFFIX.items() if metric.name.endswith(suffix))
    return next(found, COUNT)
