"""Dashboards and alerts as files that Grafana reads at its start (provisioning)."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import yaml

from controller.dashboards.alerts import EVERY_S, FOLDER, alert_group
from controller.dashboards.board import Json
from controller.dashboards.boards import all_boards
from controller.dashboards.variables import SOURCE_UID
from controller.metrics.prometheus_config import Intervals

PROMETHEUS_URL = "http://localhost:9090"
DASHBOARDS_PATH = "/var/lib/grafana/dashboards/benchfarm"
_HEADER = "# Written by `benchfarm dashboards build`; a change by hand is lost with the next one.\n"


@dataclass(frozen=True, slots=True)
class Place:
    """Addresses and paths to write into the files."""

    prometheus_url: str = PROMETHEUS_URL
    """URL at which Grafana reaches Prometheus."""
    dashboards_path: str = DASHBOARDS_PATH
    """Path of the folder `dashboards` on Grafana's host."""


def built_dashboards(source_uid: str = SOURCE_UID) -> tuple[Json, ...]:
    """Return the JSON of every dashboard."""
    return tuple(board.build(source_uid) for board in all_boards())


def data_source(prometheus_url: str) -> Json:
    """Return our data source, in the format of both Grafana's files and its interface."""
    return {
        "uid": SOURCE_UID,
        "name": "benchfarm Prometheus",
        "type": "prometheus",
        "access": "proxy",
        "url": prometheus_url,
        # The window of rates follows from the longest scrape interval.
        "jsonData": {"httpMethod": "POST", "timeInterval": f"{Intervals().controller_s:g}s"},
    }


def provisioning_files(place: Place) -> Iterator[tuple[str, str]]:
    """Yield path and text of every file, relative to one folder."""
    for dashboard in built_dashboards():
        name = str(dashboard["uid"]).removeprefix("benchfarm-")
        yield f"dashboards/{name}.json", json.dumps(dashboard, indent=1) + "\n"
    source = {"apiVersion": 1, "datasources": [data_source(place.prometheus_url)]}
    yield "provisioning/datasources/benchfarm.yaml", _yaml(source)
    yield "provisioning/dashboards/benchfarm.yaml", _yaml(_provider(place.dashboards_path))
    yield "provisioning/alerting/benchfarm.yaml", _yaml(_alerting())


def _provider(path: str) -> Json:
    """Return the provider of dashboards; users save changes only as copies."""
    provider = {
        "name": "benchfarm",
        "orgId": 1,
        "folder": FOLDER,
        "folderUid": FOLDER,
        "type": "file",
        "allowUiUpdates": False,
        "options": {"path": path},
    }
    return {"apiVersion": 1, "providers": [provider]}


def _alerting() -> Json:
    group = alert_group(SOURCE_UID)
    of_file = {
        "orgId": 1,
        "name": group["title"],
        "folder": FOLDER,
        "interval": f"{EVERY_S}s",
        "rules": [_as_in_files(rule) for rule in group["rules"]],
    }
    return {"apiVersion": 1, "groups": [of_file]}


def _as_in_files(rule: Mapping[str, object]) -> Json:
    """Return a rule without the fields that the file has once for its group."""
    of_group = ("folderUID", "orgID", "ruleGroup")
    return {name: value for name, value in rule.items() if name not in of_group}


def _yaml(data: Json) -> str:
    return _HEADER + yaml.safe_dump(data, sort_keys=False, width=100, allow_unicode=True)
