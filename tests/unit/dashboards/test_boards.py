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

from controller.contracts.catalog import load_catalog
from controller.contracts.units import Unit
from controller.dashboards.board import Json
from controller.dashboards.files import Place, built_dashboards, provisioning_files
from controller.dashboards.links import TAG
from controller.dashboards.queries import names_of_variables, panels_of, used_variables
from controller.dashboards.units import UNITS_OF_RESULT
from controller.metrics import names

DASHBOARDS = {str(dashboard["uid"]): dashboard for dashboard in built_dashboards()}
JOINED = re.compile(r'"(?:row|column)", " ", ([^)]+)\)')
"""The labels that `label_join` makes the name of a heat map's row or column from."""
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
def test_heat_maps_have_a_cell_for_each_result(dashboard: Json) -> None:
    """Grafana keeps one of two ratios with the same row and column."""
    wanted = {*names.RESULT_LABELS, "name"} - {"device"}
    for panel in panels_of(dashboard):
        if not _is_heat_map(panel) or panel["title"].startswith("By model"):  # that has medians
            continue
        (asked,) = (target["expr"] for target in panel["targets"])
        told = {label for source in JOINED.findall(asked) for label in re.findall(r"\w+", source)}
        alike = {label for label in wanted if re.search(rf'\b{label}="\w+"', asked)}
        assert wanted - alike <= told, panel["title"]


@pytest.mark.parametrize("metric", [m for m, units in UNITS_OF_RESULT.items() if len(units) > 1])
def test_panels_of_results_in_several_units_name_none(metric: str) -> None:
    said = {"throughput": "in the workload's unit", "energy": "in joules"}[metric]
    shown = [
        (panel, unit)
        for board in DASHBOARDS.values()
        for panel in panels_of(board)
        for unit in _units_of(panel, metric)
    ]
    assert len(shown) > 1
    for panel, unit in shown:
        assert unit == "none", panel["title"]
        assert said in panel["description"], panel["title"]


def test_every_unit_that_a_manifest_declares_is_one_that_panels_know() -> None:
    catalog = load_catalog()
    declared = {
        (metric, figure.unit)
        for stack in catalog.stacks.values()
        for metric, figure in (stack.command.figures if stack.command else {}).items()
    }
    batches = [
        knobs["batch_size"]
        for w in catalog.workloads.values()
        if "batch_size" in (knobs := w.knobs)
    ]
    declared |= {("throughput", unit) for unit in Unit for b in batches if unit == f"{b.unit}/s"}
    assert ("throughput", Unit.TOKENS_PER_SECOND) in declared
    assert ("throughput", Unit.SEQUENCES_PER_SECOND) in declared
    for metric, unit in declared:
        assert unit in UNITS_OF_RESULT.get(metric, (unit,)), metric


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


def _is_heat_map(panel: Mapping[str, Any]) -> bool:
    made = panel.get("transformations", ())
    return any(one["id"] == "groupingToMatrix" for one in made)


def _units_of(panel: Mapping[str, Any], metric: str) -> Iterator[str]:
    """Yield the Grafana units in which a panel shows results in a metric."""
    headings = {
        name: heading
        for one in panel.get("transformations", ())
        for name, heading in one["options"].get("renameByName", {}).items()
    }
    units = {
        override["matcher"]["options"]: prop["value"]
        for override in panel["fieldConfig"]["overrides"]
        for prop in override["properties"]
        if prop["id"] == "unit"
    }
    for target in panel["targets"]:
        if f'metric="{metric}"' in target["expr"]:
            heading = headings.get(f"Value #{target['refId']}", "")
            yield units.get(heading, panel["fieldConfig"]["defaults"]["unit"])


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
