"""`dashboards push` against a Grafana server of the tester's own: make grafana-smoke GRAFANA_URL=…

It signs in with GRAFANA_TOKEN, or as GRAFANA_USER with GRAFANA_PASSWORD; GRAFANA_PROMETHEUS_URL is
where that Grafana reaches a Prometheus that has benchfarm's metrics. It leaves the folder, data
source, dashboards and alerts there, as `push` does, and takes away the copy that it makes.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import Any

import pytest

from controller.dashboards.alerts import FOLDER, GROUP
from controller.dashboards.files import built_dashboards
from controller.dashboards.grafana import Credential, Grafana, connected
from controller.dashboards.links import FLEET
from controller.dashboards.push import Move, Wish, push
from controller.dashboards.queries import VARIABLE, panels_of
from controller.dashboards.variables import SOURCE_UID
from controller.metrics.rules import ALERTS

pytestmark = [pytest.mark.integration, pytest.mark.alone, pytest.mark.hardware]

WISH = Wish(prometheus_url=os.environ.get("GRAFANA_PROMETHEUS_URL"))


@pytest.fixture(scope="module")
def grafana() -> Iterator[Grafana]:
    url = os.environ.get("GRAFANA_URL")
    if not url:
        pytest.skip("no Grafana to test with: make grafana-smoke GRAFANA_URL=http://…")
    with connected(url, credential()) as grafana:
        list(push(grafana, WISH))
        yield grafana


def credential() -> Credential:
    if user := os.environ.get("GRAFANA_USER"):
        return user, os.environ["GRAFANA_PASSWORD"]
    return os.environ["GRAFANA_TOKEN"]


def test_second_push_changes_nothing(grafana: Grafana) -> None:
    assert [step for step in push(grafana, WISH) if step.changed] == []


@pytest.mark.parametrize("dashboard", built_dashboards(), ids=lambda it: it["uid"])
def test_dashboards_arrive_whole(grafana: Grafana, dashboard: dict[str, Any]) -> None:
    stored = grafana.dashboard(dashboard["uid"])
    assert stored
    assert stored.dashboard["title"] == dashboard["title"]
    assert len(stored.dashboard["panels"]) == len(dashboard["panels"])
    assert len(stored.dashboard["templating"]["list"]) == len(dashboard["templating"]["list"])


def test_alerts_arrive_whole(grafana: Grafana) -> None:
    group = grafana.alert_group(FOLDER, GROUP)
    assert group
    assert {rule["title"] for rule in group["rules"]} == {alert.name for alert in ALERTS}


def test_edits_are_kept_apart(grafana: Grafana) -> None:
    stored = grafana.dashboard(FLEET)
    assert stored
    edited = {**stored.dashboard, "description": "edited by benchfarm's smoke test"}
    grafana.save_dashboard(edited, FOLDER, "an edit")
    copy = f"{FLEET}-edited-{stored.version + 1}"
    try:
        done = {step.what: step.done for step in push(grafana, WISH) if step.changed}
        assert done["dashboard Fleet overview"] == Move.KEEP_EDITS
        kept, ours = grafana.dashboard(copy), grafana.dashboard(FLEET)
        assert kept
        assert kept.dashboard["description"] == edited["description"]
        assert ours
        assert ours.dashboard["description"] == stored.dashboard["description"]
    finally:
        grafana._api.dashboard.delete_dashboard(copy)


def test_grafana_runs_every_query(grafana: Grafana) -> None:
    """Through Grafana, as a panel asks; every variable stands for everything there is."""
    health = grafana._api.datasource.health(SOURCE_UID)
    if health.get("status") != "OK":
        pytest.skip(f"this Grafana reaches no Prometheus: {health.get('message')}")
    for dashboard in built_dashboards():
        for panel in panels_of(dashboard):
            body = {"queries": [_asked(target) for target in panel["targets"]]}
            window = {"from": "now-30m", "to": "now"}
            answer = grafana._api.client.POST("/ds/query", json=body | window)
            errors = {ref: it["error"] for ref, it in answer["results"].items() if "error" in it}
            assert errors == {}, panel["title"]


def _asked(target: dict[str, Any]) -> dict[str, Any]:
    source = {"type": "prometheus", "uid": SOURCE_UID}
    promql = VARIABLE.sub(lambda it: it[0] if it[0].startswith("$__") else ".*", target["expr"])
    limits = {"intervalMs": 15_000, "maxDataPoints": 100}
    return {**target, **limits, "datasource": source, "expr": promql}
