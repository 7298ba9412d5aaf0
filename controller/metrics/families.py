"""Exported metric families, from the metrics in `names`.

Counters and histograms are prometheus_client's. Gauges computed at each scrape are formatted here,
because its encoder creates an object for each series and escapes each label again, which is too
slow for a large fleet; tests/integration/test_scrape.py bounds a scrape of 1,000 devices.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache

from prometheus_client import CollectorRegistry, Counter, Histogram, disable_created_metrics

from controller.metrics.names import Metric

Sample = tuple[Sequence[str], float]
"""The values of a metric's labels, in order, and its value."""
_ESCAPES = str.maketrans({"\\": r"\\", "\n": r"\n", '"': r"\""})


@dataclass(frozen=True, slots=True)
class Gauge:
    """A gauge and its present series, if any."""

    metric: Metric
    samples: Iterable[Sample]


def gauge_text(gauges: Iterable[Gauge]) -> str:
    """Return gauges in the text format that Prometheus 0.0.4 and OpenMetrics 1.0 share."""
    return "".join(line for gauge in gauges for line in _lines(gauge))


def counter(metric: Metric, registry: CollectorRegistry) -> Counter:
    """Return a counter that starts at 0."""
    _without_created()
    return Counter(metric.name, metric.help, metric.labels, registry=registry)


def histogram(metric: Metric, registry: CollectorRegistry) -> Histogram:
    """Return an empty histogram."""
    _without_created()
    return Histogram(
        metric.name, metric.help, metric.labels, buckets=metric.buckets, registry=registry
    )


def _without_created() -> None:
    """Disable the `_created` series beside every counter; nothing of ours uses them."""
    disable_created_metrics()  # type: ignore[no-untyped-call]


def _lines(gauge: Gauge) -> Iterator[str]:
    name, labels = gauge.metric.name, gauge.metric.labels
    yield f"# HELP {name} {gauge.metric.help}\n# TYPE {name} gauge\n"
    for values, value in gauge.samples:
        pairs = f"{{{','.join(map(_pair, labels, values))}}}" if labels else ""
        yield f"{name}{pairs} {float(value)}\n"


@lru_cache(maxsize=2**14)  # a value appears in many series
def _pair(label: str, value: str) -> str:
    return f'{label}="{value.translate(_ESCAPES)}"'
