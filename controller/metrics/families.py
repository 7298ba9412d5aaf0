"""From a metric's name in `names` to what is exported.

Counters and histograms are prometheus_client's. Gauges that are worked out at each scrape are
written here: its encoder makes an object of each series and escapes each label anew, too slow for
a large fleet; tests/integration/test_scrape.py bounds a scrape of 1,000 devices.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache

from prometheus_client import CollectorRegistry, Counter, Histogram, disable_created_metrics

from controller.metrics.names import Metric

Sample = tuple[Sequence[str], float]
"""The values of a metric's labels, in order, and its own."""
_ESCAPES = str.maketrans({"\\": r"\\", "\n": r"\n", '"': r"\""})


@dataclass(frozen=True, slots=True)
class Gauge:
    """A gauge and its series now; there may be none."""

    metric: Metric
    samples: Iterable[Sample]


def gauge_text(gauges: Iterable[Gauge]) -> str:
    """Return gauges in the text that Prometheus's format 0.0.4 and OpenMetrics 1.0 share."""
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
    """Have no `_created` beside every counter: series that nothing of ours asks for."""
    disable_created_metrics()  # type: ignore[no-untyped-call]


def _lines(gauge: Gauge) -> Iterator[str]:
    name, labels = gauge.metric.name, gauge.metric.labels
    yield f"# HELP {name} {gauge.metric.help}\n# TYPE {name} gauge\n"
    for values, value in gauge.samples:
        pairs = f"{{{','.join(map(_pair, labels, values))}}}" if labels else ""
        yield f"{name}{pairs} {float(value)}\n"


@lru_cache(maxsize=2**14)  # a value stands in many series
def _pair(label: str, value: str) -> str:
    return f'{label}="{value.translate(_ESCAPES)}"'
