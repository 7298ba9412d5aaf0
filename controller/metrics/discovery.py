"""Where Prometheus finds the exporters: its HTTP service discovery format. Pure."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from controller.contracts.device import RegisteredAgent
from controller.metrics.prometheus_config import COMPONENT

TARGETS_PATH = "/v1/prometheus/targets"
"""Of the controller's HTTP interface."""


def targets(controller: str, agents: Iterable[RegisteredAgent]) -> list[dict[str, Any]]:
    """Return the exporters of the controller, at HOST:PORT, and of every agent that is there.

    `instance` is a name of their own: their ports change at each start.
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
