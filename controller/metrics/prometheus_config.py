"""Prometheus's configuration for benchfarm's exporters. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from controller.metrics.rules import alert_rules, job_name, recording_rules

CONFIG, RECORDING, ALERTING = "prometheus.yml", "recording_rules.yml", "alert_rules.yml"
COMPONENT = "__meta_benchfarm_component"
"""Label of a discovered target: `controller` or `agent`."""
Discovery = Mapping[str, Any]
"""A discovery configuration of Prometheus, such as `{"http_sd_configs": [...]}`."""


@dataclass(frozen=True, slots=True)
class Intervals:
    """Seconds between scrapes; a live value is at most its agent's interval plus 1 s old."""

    agent_s: float = 3.0
    controller_s: float = 15.0


def http_discovery(url: str, token_file: Path) -> Discovery:
    """Return the configuration for discovery by asking the controller; see docs/metrics.md."""
    return {
        "http_sd_configs": [
            {"url": url, "refresh_interval": "5s", "authorization": _bearer(token_file)}
        ]
    }


def prometheus_files(
    discovery: Discovery, token_file: Path, intervals: Intervals
) -> dict[str, dict[str, Any]]:
    """Return Prometheus's configuration and rules: file name → data for YAML."""
    config = {
        "global": {"evaluation_interval": _duration(intervals.controller_s)},
        "rule_files": [RECORDING, ALERTING],
        "scrape_configs": [
            _job("controller", intervals.controller_s, discovery, token_file),
            _job("agent", intervals.agent_s, discovery, token_file),
        ],
    }
    return {CONFIG: config, RECORDING: recording_rules(), ALERTING: alert_rules()}


def _job(
    component: str, interval_s: float, discovery: Discovery, token_file: Path
) -> dict[str, Any]:
    return {
        "job_name": job_name(component),
        "scrape_interval": _duration(interval_s),
        "scrape_timeout": _duration(min(interval_s, 10.0)),
        "authorization": _bearer(token_file),
        **discovery,
        "relabel_configs": [
            {"source_labels": [COMPONENT], "regex": component, "action": "keep"},
        ],
    }


def _bearer(token_file: Path) -> dict[str, str]:
    return {"type": "Bearer", "credentials_file": str(token_file)}


def _duration(seconds: float) -> str:
    return f"{seconds:g}s" if seconds == round(seconds) else f"{round(seconds * 1000)}ms"
