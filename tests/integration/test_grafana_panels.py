"""Every table, stat and bar gauge of every dashboard, drawn by Grafana's own components.

The data is a generated fleet's, from a real Prometheus. The components are 450 MB of npm's, so this
only runs when asked for: make grafana-panels. Screenshots are kept in build/grafana-panels.
"""

from __future__ import annotations

import copy
import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Page

from controller.dashboards.files import built_dashboards
from controller.dashboards.links import COMPARE, DEVICE
from controller.dashboards.probing import Probe
from controller.dashboards.queries import Question, panels_of, questions_of
from controller.metrics import names
from controller.runtime.prometheus import Prometheus
from tests.support.chromium import chromium
from tests.support.grafana_panels import Json, frames_of, page_address
from tests.support.scraped_fleet import scraped_fleet

pytestmark = [pytest.mark.integration, pytest.mark.alone, pytest.mark.hardware]

SCREENSHOTS = Path(__file__).parents[2] / "build" / "grafana-panels"
DRAWN = ("table", "stat", "bargauge")
"""Kinds that Grafana publishes components of; those over time it does not."""
PLANTED = "Against the device ${baseline_device:text}"
DASHBOARDS = {str(dashboard["uid"]): dashboard for dashboard in built_dashboards()}
PANELS = [
    pytest.param(uid, panel, id=f"{uid}: {panel['title']}")
    for uid, dashboard in DASHBOARDS.items()
    for panel in panels_of(dashboard)
    if panel["type"] in DRAWN
]


@pytest.fixture(scope="module")
def prometheus(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Prometheus]:
    with scraped_fleet(tmp_path_factory.mktemp("panels")) as server:
        yield server


@pytest.fixture(scope="module")
def page() -> Iterator[Page]:
    with page_address() as address, chromium() as browser:
        opened = browser.new_page(viewport={"width": 1440, "height": 640})
        opened.goto(address)
        yield opened
        opened.close()


@pytest.fixture(scope="module")
def values(prometheus: Prometheus) -> dict[str, dict[str, str]]:
    """Dashboard → values of all its variables."""
    busy = f"{names.RUN_PROGRESS} and on(device) {names.DEVICE_INFO}"
    chosen = {
        DEVICE: {"device": str(prometheus.query(busy)[0]["metric"]["device"])},
        COMPARE: {"baseline_device": "cpu-000"},  # its results were repeated
    }
    probe = Probe(prometheus)
    return {uid: probe.variables(it, chosen.get(uid))[1] for uid, it in DASHBOARDS.items()}


def question_of(uid: str, panel: Json, ref: str) -> Question:
    place = f"{DASHBOARDS[uid]['title']} / {panel['title']} / {ref}"
    (found,) = (it for it in questions_of(DASHBOARDS[uid]) if it.place == place)
    return found


def frames(uid: str, panel: Json, prometheus: Prometheus, values: dict[str, str]) -> list[Json]:
    found: list[Json] = []
    for target in panel["targets"]:
        answer = Probe(prometheus).ask(question_of(uid, panel, target["refId"]), values)
        series = prometheus.query(answer.promql)
        found += frames_of(target, series, alone=len(panel["targets"]) == 1)
    return found


@pytest.mark.parametrize(("uid", "panel"), PANELS)
def test_a_panel_is_drawn(
    uid: str,
    panel: Json,
    page: Page,
    prometheus: Prometheus,
    values: dict[str, dict[str, str]],
) -> None:
    complaints: list[str] = []
    page.on("pageerror", lambda error: complaints.append(str(error)))
    given = frames(uid, panel, prometheus, values[uid])
    assert given, "it has data"
    told: Json = page.evaluate("([panel, frames]) => drawPanel(panel, frames)", [panel, given])
    SCREENSHOTS.mkdir(parents=True, exist_ok=True)
    if panel["type"] == "table":
        page.wait_for_selector("[role=gridcell]")
        is_as_it_should(told["columns"], page.evaluate("drawnCells()"))
    else:
        drawn = told["values"]
        assert drawn
        assert all(it["text"].strip() and it["text"] != "NaN" for it in drawn)
        assert all(it["color"] for it in drawn)
    page.screenshot(path=SCREENSHOTS / f"{uid} {re.sub(r'[^a-zA-Z0-9]+', '-', panel['title'])}.png")
    assert complaints == []


def is_as_it_should(columns: list[Json], cells: list[Json]) -> None:
    """Assert that numbers are shown, and that nothing but numbers is coloured."""
    assert cells
    assert any(it["type"] == "number" for it in columns) or len(columns) > 1
    for cell in cells:
        of = columns[cell["column"]]
        if of["type"] != "number" or not cell["text"]:
            assert cell["plain"], (of["name"], cell)
        assert cell["text"] not in ("NaN", "undefined", "null"), (of["name"], cell)


def test_a_coloured_row_label_is_seen(
    page: Page, prometheus: Prometheus, values: dict[str, dict[str, str]]
) -> None:
    """Planted: the first colour of thresholds, which Grafana gives to what is no number, too."""
    (found,) = (it for it in panels_of(DASHBOARDS[COMPARE]) if it["title"] == PLANTED)
    planted: Json = copy.deepcopy(dict(found))
    planted["fieldConfig"]["defaults"]["thresholds"]["steps"][0]["color"] = "red"
    given = frames(COMPARE, planted, prometheus, values[COMPARE])
    told: Json = page.evaluate("([panel, frames]) => drawPanel(panel, frames)", [planted, given])
    page.wait_for_selector("[role=gridcell]")
    with pytest.raises(AssertionError, match="plain"):
        is_as_it_should(told["columns"], page.evaluate("drawnCells()"))
