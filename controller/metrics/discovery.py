"""The exporters in the format of Prometheus's HTTP service discovery. Pure."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from controller.contracts.device import RegisteredAgent
from controller.metrics.prometheus_config import COMPONENT

TARGETS_PATH = "/v1/prometheus/targets"
"""Path in the controller's HTTP interface."""


def targets(controller: str, agents: Iterable[RegisteredAgent]) -> list[dict[str, Any]]:
    """Return the exporters of the controller, at HOST:PORT, and of every online agent.

    `instance` is a stable name, since ports change at each start.
    """
    exporters = [_target("controller", "controller", controller)]
    exporters += [
        _target("agent", known.agent.id, known.agent.exporter)
        for known in agents
        if known.online and known.agent.exporter
    ]
    return exporters


def _target(component: str, instance: str, address: str) -> dict[str, Any]:
    return {"targets": [address], "labels": {COMPONENT: component, "instance": instance}}
