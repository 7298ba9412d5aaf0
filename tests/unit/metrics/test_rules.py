"""Prometheus's own tools judge its configuration, the rules and what the exporters say."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import get_args

import pytest
from prometheus_client.exposition import generate_latest

from controller.contracts.policy import Status, load_policy
from controller.dashboards.files import built_dashboards
from controller.dashboards.queries import questions_of
from controller.metrics.exporter import Exposition
from controller.metrics.families import gauge_text
from controller.metrics.names import (
    DEVICE_THERMAL_STATUS,
    THROTTLES_FROM,
    Metric,
    all_metrics,
)
from controller.metrics.prometheus_config import Intervals, http_discovery, prometheus_files
from controller.metrics.rules import ALERTS, RECORDED, Alert
from controller.runtime.prometheus import write_files
from tests.support.exposition import counted, openmetrics
from tests.support.generated_fleet import GeneratedFleet
from tests.support.prometheus import promtool

ROOT = Path(__file__).parents[3]
DEPLOYED = ROOT / "deploy/prometheus"
TOKEN_FILE = Path("/etc/prometheus/benchfarm-metrics-token")


def test_the_deployed_files_are_what_the_code_says(tmp_path: Path) -> None:
    discovery = http_discovery("http://127.0.0.1:9464/v1/prometheus/targets", TOKEN_FILE)
    files = prometheus_files(discovery, TOKEN_FILE, Intervals())
    write_files(tmp_path, files)
    assert sorted(path.name for path in DEPLOYED.glob("*.yml")) == sorted(files)
    for name in files:
        assert (DEPLOYED / name).read_text() == (tmp_path / name).read_text(), (
            "write them anew: benchfarm prometheus config deploy/prometheus"
            f" --controller http://127.0.0.1:9464 --token-file {TOKEN_FILE}"
        )


def test_promtool_finds_no_fault_in_configuration_and_rules(tmp_path: Path) -> None:
    token_file = tmp_path / "token"
    token_file.write_text("secret")
    discovery = http_discovery("http://127.0.0.1:1/targets", token_file)
    write_files(tmp_path, prometheus_files(discovery, token_file, Intervals(0.5, 1.0)))
    checked = promtool("check", "config", "--lint-fatal", str(tmp_path / "prometheus.yml"))
    assert checked.returncode == 0, checked.stdout + checked.stderr
    assert f"{len(ALERTS)} rules found" in checked.stdout
    assert f"{len(RECORDED)} rules found" in checked.stdout


@pytest.mark.parametrize("path", sorted(DEPLOYED.glob("tests/*.yml")), ids=lambda p: p.stem)
def test_rules_do_what_their_tests_say(path: Path) -> None:
    done = promtool("test", "rules", str(path))
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize("alert", ALERTS, ids=lambda alert: alert.name)
def test_every_alert_is_seen_to_fire_and_to_stay_silent(alert: Alert) -> None:
    text = (DEPLOYED / "tests/alert_rules_test.yml").read_text()
    assert re.search(rf"alertname: {alert.name}\n +exp_alerts:\n", text), "it never fires"
    assert f"alertname: {alert.name}, exp_alerts: []" in text, "it is never silent"


@pytest.mark.parametrize("metric", RECORDED, ids=str)
def test_every_recording_rule_is_seen_to_record(metric: Metric) -> None:
    text = (DEPLOYED / "tests/recording_rules_test.yml").read_text()
    assert f"labels: '{metric}{{" in text


def test_a_phone_throttles_for_the_alert_as_for_the_dashboards() -> None:
    (alert,) = (alert for alert in ALERTS if alert.name == "DeviceThrottling")
    throttles = f"{DEVICE_THERMAL_STATUS} >= {THROTTLES_FROM}"
    assert alert.expr == throttles
    for board in built_dashboards():
        asked = [question.promql for question in questions_of(board)]
        limits = [re.findall(r"[<>]=? ?\d+", one) for one in asked if "thermal_status" in one]
        assert all(found in ([], [f">= {THROTTLES_FROM}"]) for found in limits), board["title"]


def test_phones_throttle_from_the_status_that_policy_lab_refuses() -> None:
    limits = load_policy("lab").throttled
    assert limits
    assert get_args(Status)[THROTTLES_FROM] == limits.thermal_status == "MODERATE"


def test_every_alert_has_a_runbook() -> None:
    sections = re.findall(r"^## (.+)$", (ROOT / "docs/runbooks.md").read_text(), re.MULTILINE)
    assert sections == [alert.name for alert in ALERTS]
    assert [a.runbook for a in ALERTS] == [f"docs/runbooks.md#{s.lower()}" for s in sections]


FLEET = GeneratedFleet(servers=4, phones=8)


@pytest.mark.parametrize("expose", [FLEET.of_controller, FLEET.of_agents])
def test_promtool_finds_no_fault_in_what_is_exported(expose: Callable[[], Exposition]) -> None:
    exposed = expose()
    text = gauge_text(exposed.gauges).encode() + generate_latest(exposed.counted)
    checked = promtool("check", "metrics", stdin=text)
    assert (checked.returncode, checked.stdout, checked.stderr) == (0, "", "")


def test_every_metric_is_exported_once_as_its_kind_and_with_its_labels() -> None:
    found = [
        family
        for exposed in (FLEET.of_controller(), FLEET.of_agents())
        for family in (
            *openmetrics(f"{gauge_text(exposed.gauges)}# EOF\n"),
            *counted(exposed.counted),
        )
    ]
    metrics = {m.name.removesuffix("_total"): m for m in all_metrics() if not m.is_recorded}
    assert sorted(family.name for family in found) == sorted(metrics)
    for family in found:
        metric = metrics[family.name]
        assert (family.type, family.documentation) == (metric.kind, metric.help)
        labels = {frozenset(sample.labels) - {"le"} for sample in family.samples}
        assert labels == {frozenset(metric.labels)}, metric
