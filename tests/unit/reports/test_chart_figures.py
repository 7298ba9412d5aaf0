"""Figures are made without plotly's classes, and are what these accept."""

from __future__ import annotations

import json
import subprocess
import sys

import plotly.graph_objects as go
import pytest

from controller.contracts.result import Measurement
from controller.contracts.units import Unit
from controller.page.sample_charts import samples_chart
from controller.reports.html.charts import (
    Axis,
    Box,
    Chart,
    Point,
    bars_chart,
    boxes_chart,
    layout_of,
    points_chart,
)

AXIS = Axis("step time", 1e3, "ms")
POINTS = [Point("a", 0.5, (0.4, 0.7), "best"), Point("b", 0.25, None, "reference")]
QUANTILES = (0.1, 0.2, 0.3, 0.4, 0.5)
CHARTS = [
    points_chart("x", "X", "", POINTS, AXIS, 0.3),
    bars_chart("x", "X", "", POINTS, AXIS),
    boxes_chart("x", "X", "", [Box("a", QUANTILES, "best"), Box("b", QUANTILES)], AXIS),
    samples_chart("x", "step time", Measurement.of_samples((0.5, 0.25, 0.75), Unit.SECONDS)),
]


@pytest.mark.parametrize("chart", CHARTS, ids=lambda chart: chart.figure["data"][0]["type"])
def test_a_figure_is_one_that_plotly_knows_and_that_is_json(chart: Chart) -> None:
    figure = go.Figure(chart.figure)  # refuses attributes and values that it does not know
    assert len(figure.data) == len(chart.figure["data"]) > 0
    assert json.loads(json.dumps(chart.figure)) == chart.figure
    assert figure.layout.paper_bgcolor == "rgba(0,0,0,0)"
    assert figure.layout.xaxis.fixedrange
    assert figure.layout.yaxis.gridcolor == "var(--line)"


@pytest.mark.parametrize("label", ["z" * 200_000, "a name " * 30_000])
def test_a_name_of_any_length_leaves_a_chart_as_high_as_a_screen(label: str) -> None:
    chart = bars_chart("x", "X", "", [Point(label, 0.5), Point("b", 0.25)], AXIS)
    lines = chart.figure["layout"]["yaxis"]["ticktext"][0].split("<br>")
    assert len(lines) == 4
    assert lines[-1].endswith("…")
    assert max(map(len, lines)) <= 24
    assert chart.height < 300
    assert len(json.dumps(chart.figure)) < 10_000


def test_a_name_that_fits_four_lines_is_whole() -> None:
    chart = bars_chart("x", "X", "", [Point("four words a line " * 5, 0.5)], AXIS)
    lines = chart.figure["layout"]["yaxis"]["ticktext"][0].split("<br>")
    assert " ".join(lines) == " ".join(["four words a line"] * 5)
    assert len(lines) == 4


def test_a_layouts_own_attributes_are_laid_over_those_of_all() -> None:
    layout = layout_of(xaxis={"type": "log", "gridcolor": "red"}, height=3)
    assert layout["xaxis"]["fixedrange"]
    assert (layout["xaxis"]["type"], layout["xaxis"]["gridcolor"]) == ("log", "red")
    assert layout["yaxis"]["gridcolor"] == layout_of()["xaxis"]["gridcolor"] == "var(--line)"
    assert layout["height"] == 3


def test_neither_page_nor_reports_load_what_plotly_makes_figures_with() -> None:
    """It takes most of a second, which the first who opens a page would wait for."""
    script = (
        "import sys, controller.page.site, controller.reports.html.report as made; "
        "from controller.reports.html.page import library; assert 'plotly.js' in library()[:200]; "
        "print(*(name for name in sys.modules if name.startswith('plotly.')))"
    )
    printed = subprocess.run(
        [sys.executable, "-c", script], stdout=subprocess.PIPE, text=True, check=True
    ).stdout
    assert printed.split() == []
