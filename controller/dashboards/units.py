"""The Grafana unit of every metric: by suffix in names.py, by name for results.

A series of results doesn't tell its unit, so metrics that have several are shown without one.
"""

from __future__ import annotations

from collections.abc import Mapping

from grafana_foundation_sdk.models import units

from controller.contracts.units import Unit
from controller.metrics.names import Metric

COUNT = units.Short
PER_SECOND = units.OpsPerSecond
PER_MINUTE = units.OpsPerMinute
SHARE = units.PercentUnit
TIMES_BETTER = "suffix:×"

UNITS_OF_RESULT: Mapping[str, tuple[Unit, ...]] = {
    "step_time": (Unit.SECONDS,),
    "latency_mean": (Unit.SECONDS,),
    "latency_p50": (Unit.SECONDS,),
    "latency_p90": (Unit.SECONDS,),
    "latency_p99": (Unit.SECONDS,),
    "throughput": (
        *(Unit.IMAGES_PER_SECOND, Unit.SEQUENCES_PER_SECOND),
        *(Unit.SAMPLES_PER_SECOND, Unit.TOKENS_PER_SECOND),
    ),
    "kernel_time": (Unit.SECONDS,),
    "peak_memory": (Unit.BYTES,),
    "energy": (Unit.JOULES, Unit.JOULES_PER_QUERY, Unit.JOULES_PER_STEP),
    "loss": (Unit.LOSS,),
    "PSNR": (Unit.DECIBELS,),
    "reference_accuracy": (Unit.FRACTION,),
    "reference_agreement": (Unit.FRACTION,),
}
"""The metrics of results in panels, as scenarios name them, and the units that workloads give them.
"""

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
    Unit.BYTES: units.BytesIEC,
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
    first, *others = UNITS_OF_RESULT[metric]
    return units.NoUnit if others else _SHOWN_AS[first]


def lower_is_better(metric: str) -> bool:
    """Return whether a smaller result is better, in each unit of its metric."""
    return all(unit.lower_is_better for unit in UNITS_OF_RESULT[metric])


def unit_of(metric: Metric) -> str:
    """Return the Grafana unit of a metric, from the suffix with its base unit."""
    found = (unit for suffix, unit in _BY_SUFFIX.items() if metric.name.endswith(suffix))
    return next(found, COUNT)
