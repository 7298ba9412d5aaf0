"""What every dashboard must have, whatever it shows."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from itertools import combinations
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest

from controller.dashboards.board import Json
from controller.dashboards.files import Place, built_dashboards, provisioning_files
from controller.dashboards.links import TAG
from controller.dashboards.queries import names_of_variables, panels_of, used_variables

DASHBOARDS = {str(dashboard["uid"]): dashboard for dashboard in built_dashboards()}
COMMITTED = Path(__file__).parents[3] / "deploy/grafana"

each = pytest.mark.parametrize("dashboard", DASHBOARDS.values(), ids=DASHBOARDS)


def test_all_six_are_there() -> None:
    assert [dashboard["title"] for dashboard in DASHBOARDS.values()] == [
        "Fleet overview",
        "Compare hardware",
        "Device",
        "Sweep live",
        "Training",
        "Mobile suite",
    ]


@each
def test_panels_say_what_they_are_for_and_in_which_unit(dashboard: Json) -> None:
    panels = list(panels_of(dashboard))
    assert len(panels) >= 8
    for panel in panels:
        assert len(panel["description"]) > 20, panel["title"]
        assert panel["fieldConfig"]["defaults"]["unit"], panel["title"]
        assert panel["datasource"]["uid"] == "${datasource}"
        assert panel["targets"]


@each
def test_titles_and_numbers_are_unique(dashboard: Json) -> None:
    panels = dashboard["panels"]
    assert len({panel["id"] for panel in panels}) == len(panels)
    assert len({panel["title"] for panel in panels_of(dashboard)}) == len(
        list(panels_of(dashboard))
    )


@each
def test_panels_fill_the_grid_without_overlap(dashboard: Json) -> None:
    places = [panel["gridPos"] for panel in dashboard["panels"]]
    assert all(place["x"] + place["w"] <= 24 for place in places)
    for one, other in combinations(places, 2):
        beside = one["x"] + one["w"] <= other["x"] or other["x"] + other["w"] <= one["x"]
        above = one["y"] + one["h"] <= other["y"] or other["y"] + other["h"] <= one["y"]
        assert beside or above, (one, other)


@each
def test_thresholds_rise_from_below_all_values(dashboard: Json) -> None:
    found = list(_values_of(dashboard, "thresholds"))
    assert found
    for thresholds in found:
        first, *more = [step["value"] for step in thresholds["steps"]]
        assert first is None
        assert more == sorted(more)


@each
def test_every_choice_is_used(dashboard: Json) -> None:
    asked = json.dumps(dashboard["panels"]) + json.dumps(dashboard["templating"])
    assert names_of_variables(dashboard) == used_variables(asked)


@each
def test_sweeps_and_quarantines_are_annotated(dashboard: Json) -> None:
    annotations = {it["name"] for it in dashboard["annotations"]["list"]}
    assert annotations >= {"Sweep", "Quarantine"}


@each
def test_menu_leads_to_all_dashboards(dashboard: Json) -> None:
    (menu,) = dashboard["links"]
    assert menu["tags"] == [TAG]
    assert "placement" not in menu
    assert dashboard["tags"] == [TAG]


def test_links_lead_to_dashboards_and_variables_that_exist() -> None:
    links = [link for board in DASHBOARDS.values() for link in _links_in_tables(board)]
    assert links
    for link in links:
        # Grafana's own macros hold characters that mean something else in an address.
        parts = urlsplit(re.sub(r"\${__[^}]*}", "x", link))
        target = DASHBOARDS[parts.path.removeprefix("/d/")]
        chosen = {name.removeprefix("var-") for name in parse_qs(parts.query) if "var-" in name}
        assert chosen
        assert chosen <= names_of_variables(target)


def test_committed_files_are_up_to_date() -> None:
    """Mend it with: benchfarm dashboards build -o deploy/grafana."""
    written = dict(provisioning_files(Place()))
    there = {
        str(path.relative_to(COMMITTED)): path.read_text()
        for path in COMMITTED.rglob("*")
        if path.is_file()
    }
    assert there == written


def _links_in_tables(dashboard: Json) -> Iterator[str]:
    for panel in panels_of(dashboard):
        for override in panel["fieldConfig"]["overrides"]:
            for prop in override["properties"]:
                if prop["id"] == "links":
                    yield from (link["url"] for link in prop["value"])


def _values_of(node: object, name: str) -> Iterator[Mapping[str, Any]]:
    if isinstance(node, Mapping):
        if isinstance(found := node.get(name), Mapping):
            yield found
        for value in node.values():
            yield from _values_of(value, name)
    elif isinstance(node, list):
        for value in node:
            yield from _values_of(value, name)
