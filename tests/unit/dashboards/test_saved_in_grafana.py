"""Dashboards as Grafana's own pages save them, with what ours don't have."""

from __future__ import annotations

from copy import deepcopy
from typing import Any

import pytest

from controller.contracts.errors import UserError
from controller.dashboards.lint import findings_in
from controller.dashboards.probing import Probe
from controller.dashboards.queries import questions_of, variables_of
from controller.runtime.prometheus import Prometheus
from tests.support.http_peer import Peer, answering

UP = 'benchfarm_agent_up{agent=~"$agent"}'
LOGS = '{job="nginx"} |= "error"'
SAVED: dict[str, Any] = {
    "title": "Mine",
    "panels": [
        {"id": 1, "libraryPanel": {"name": "shared", "uid": "x"}},
        {
            "type": "stat",
            "maxDataPoints": None,
            "targets": [
                {"refId": "A", "expr": UP},
                {"refId": "B", "type": "math", "expression": "$A * 2"},
                {"refId": "C", "rawSql": "select 1"},
                {"refId": "D", "expr": LOGS, "datasource": {"type": "loki", "uid": "l"}},
            ],
        },
        {
            "type": "logs",
            "title": "Logs",
            "datasource": {"type": "loki", "uid": "l"},
            "targets": [
                {"refId": "A", "expr": LOGS},
                {"refId": "B", "expr": UP, "datasource": {"type": "prometheus", "uid": "p"}},
            ],
        },
    ],
    "annotations": {
        "list": [
            {"builtIn": 1, "name": "Annotations & Alerts", "type": "dashboard"},
            {"name": "Deploys", "target": {"tags": ["deploy"], "type": "tags"}},
            {"name": "Holds", "target": {"expr": "benchfarm_agent_hold"}},
        ]
    },
    "templating": {
        "list": [
            {
                "type": "query",
                "name": "device",
                "query": {
                    "qryType": 1,
                    "query": "label_values(benchfarm_device_info, device)",
                    "refId": "PrometheusVariableQueryEditor-VariableQuery",
                },
                "regex": "",
                "includeAll": True,
                "allValue": None,
            },
            {
                "type": "query",
                "name": "city",
                "datasource": {"type": "mysql", "uid": "m"},
                "query": "select name from cities",
                "current": {"value": "Bern"},
            },
            {"type": "custom", "name": "agent", "current": {"value": ["host-1", "host-2"]}},
        ]
    },
}
EMPTY = b'{"status": "success", "data": {"result": []}}'


def test_only_queries_of_prometheus_are_checked() -> None:
    assert list(findings_in(SAVED)) == []
    asked = {it.place: it.promql for it in questions_of(SAVED)}
    assert asked == {
        "Mine /  / A": UP,
        "Mine / Logs / B": UP,
        "Mine / annotation Holds": "benchfarm_agent_hold",
    }


def test_a_query_of_a_variable_that_was_edited_in_the_page_is_read() -> None:
    (device,) = variables_of(SAVED)
    assert (device.question.promql, device.label) == ("benchfarm_device_info", "device")
    assert device.everything == ".*", "no value of its own stands for all"


@pytest.mark.parametrize(
    ("current", "said"),
    [
        ({"value": "host-1"}, "host-1"),
        ({"value": ["host-1", "host-2"]}, "host-1|host-2"),
        ({"value": ["$__all"]}, ".*"),
        ({"value": "$__all"}, ".*"),
    ],
)
def test_a_variable_that_is_no_query_has_the_value_it_was_saved_with(
    current: dict[str, object], said: str
) -> None:
    with answering(Peer(pieces=[EMPTY])) as peer:
        found = [it.promql for it in Probe(Prometheus(peer.url)).dashboard(_with(current))]
    assert f'benchfarm_agent_up{{agent=~"{said}"}}' in found


@pytest.mark.parametrize("current", [None, {}])
def test_a_variable_without_a_value_is_named(current: dict[str, object] | None) -> None:
    with answering(Peer(pieces=[EMPTY])) as peer, pytest.raises(UserError) as raised:
        list(Probe(Prometheus(peer.url)).dashboard(_with(current)))
    assert raised.value.seen == "the variable agent has no value"


def _with(current: dict[str, object] | None) -> dict[str, Any]:
    saved = deepcopy(SAVED)
    saved["templating"]["list"][-1]["current"] = current
    return saved
