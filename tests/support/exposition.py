"""What an exporter says, taken apart by prometheus_client's own parsers."""

from __future__ import annotations

from collections.abc import Iterable

from prometheus_client import CollectorRegistry
from prometheus_client.core import Metric
from prometheus_client.openmetrics import exposition, parser
from prometheus_client.parser import text_string_to_metric_families


def plain(text: str) -> list[Metric]:
    """Parse Prometheus's text format 0.0.4."""
    return list(text_string_to_metric_families(text))


def openmetrics(text: str) -> list[Metric]:
    """Parse OpenMetrics 1.0, strictly."""
    found: Iterable[Metric] = parser.text_string_to_metric_families(text)  # type: ignore[no-untyped-call]
    return list(found)


def counted(registry: CollectorRegistry) -> list[Metric]:
    """Return what a registry exports, exemplars included."""
    text: bytes = exposition.generate_latest(registry)  # type: ignore[no-untyped-call]
    return openmetrics(text.decode())
