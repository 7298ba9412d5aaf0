"""Grafana's official schemas have nothing against what is built."""

from __future__ import annotations

import pytest

from controller.dashboards.alerts import alert_group
from controller.dashboards.board import Json
from controller.dashboards.files import built_dashboards
from controller.dashboards.queries import panels_of
from tests.support.grafana_schemas import dashboard_errors, errors, units

DASHBOARDS = {str(dashboard["uid"]): dashboard for dashboard in built_dashboards()}


@pytest.mark.parametrize("uid", DASHBOARDS)
def test_schemas_accept_every_dashboard_panel_and_query(uid: str) -> None:
    assert list(dashboard_errors(DASHBOARDS[uid])) == []


@pytest.mark.parametrize("uid", DASHBOARDS)
def test_units_are_grafanas(uid: str) -> None:
    known, shown = units(), set()
    for panel in panels_of(DASHBOARDS[uid]):
        config = panel["fieldConfig"]
        shown.add(config["defaults"]["unit"])
        properties = [it for override in config["overrides"] for it in override["properties"]]
        shown |= {it["value"] for it in properties if it["id"] == "unit"}
    assert len(shown) > 3
    assert {unit for unit in shown if not unit.startswith("suffix:")} <= known


def test_schemas_accept_the_alerts() -> None:
    group = alert_group("benchfarm-prometheus")
    assert group["rules"]
    assert errors("alerting", group, "RuleGroup") == []
    for rule in group["rules"]:
        assert errors("prometheus", rule["data"][0]["model"]) == []


@pytest.mark.parametrize("level", ["dashboard", "panel", "options", "query"])
def test_schemas_would_find_a_field_too_many(level: str) -> None:
    dashboard: Json = built_dashboards()[0]
    panel = next(iter(panels_of(dashboard)))
    places = {
        "dashboard": dashboard,
        "panel": panel,
        "options": panel["options"],
        "query": panel["targets"][0],
    }
    places[level]["no_such_field"] = 1
    assert len(list(dashboard_errors(dashboard))) > 0
