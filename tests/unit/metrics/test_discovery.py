from __future__ import annotations

from controller.contracts.device import RegisteredAgent
from controller.metrics.discovery import targets
from tests.support import builders


def agent(name: str, *, online: bool, exporter: str | None) -> RegisteredAgent:
    told = builders.agent(name).model_copy(update={"exporter": exporter})
    return RegisteredAgent(agent=told, online=online, since=1.0)


def test_the_controller_and_every_agent_that_is_there() -> None:
    agents = [
        agent("host-1", online=True, exporter="10.0.0.1:1"),
        agent("host-2", online=False, exporter="10.0.0.2:2"),
        agent("host-3", online=True, exporter=None),
    ]
    assert targets("10.0.0.9:9", agents) == [
        {
            "targets": ["10.0.0.9:9"],
            "labels": {"__meta_benchfarm_component": "controller", "instance": "controller"},
        },
        {
            "targets": ["10.0.0.1:1"],
            "labels": {"__meta_benchfarm_component": "agent", "instance": "host-1"},
        },
    ]
