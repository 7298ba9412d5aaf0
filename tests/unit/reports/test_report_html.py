from __future__ import annotations

import hashlib
import html
import itertools
import re
import sys
import time
from base64 import b64encode
from dataclasses import replace
from html.parser import HTMLParser
from importlib.resources import files

import plotly.graph_objects as go
import pytest

from controller.contracts.annotations import Note, SweepAnnotations
from controller.contracts.records import StoredResult
from controller.contracts.result import Validity
from controller.contracts.units import Unit
from controller.reports.html.charts import Chart, Point, axis_for, points_chart
from controller.reports.html.page import PACKAGE, Page, policy_for, render
from controller.reports.html.report import report_html
from controller.reports.views.sweep import sweep_view
from tests.support.figures import Figure
from tests.support.sweep_examples import (
    HOSTILE,
    MADE,
    SweepExample,
    catalog,
    failure,
    repeats,
    result,
    trained,
)


class Tags(HTMLParser):
    """Counts start tags, and keeps attributes and scripts."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.links: list[str] = []
        self.scripts: list[str] = []
        self.policy = ""
        self._in_script = False
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        found = dict(attrs)
        self.tags.append(tag)
        self.links += [found[name] or "" for name in ("href", "src", "action") if name in found]
        if found.get("http-equiv") == "Content-Security-Policy":
            self.policy = found["content"] or ""
        self._in_script = tag == "script" and found.get("type") != "application/json"
        if self._in_script:
            self.scripts.append("")

    def handle_data(self, data: str) -> None:
        if self._in_script:
            self.scripts[-1] += data

    def handle_endtag(self, tag: str) -> None:
        self._in_script = False


def report_of(results: list[StoredResult] | None = None) -> str:
    return report_html(sweep_view(SweepExample().data(results), catalog(), MADE))


def test_every_text_of_a_report_is_escaped() -> None:
    broken = result(
        device="a",
        validity=Validity.INVALID,
        reasons=(HOSTILE,),
        environment={HOSTILE: HOSTILE, "cpu_model": HOSTILE},
        knobs={HOSTILE: HOSTILE},
    )
    fine = [
        result(device="b", knobs={"precision": HOSTILE}, metrics=trained((1.0, 1.1))),
        result(device="b", knobs={"precision": "x"}, metrics=trained((2.0, 2.1))),
    ]
    failed = failure(device="c", message=HOSTILE, output=HOSTILE, kind=HOSTILE)
    note = Note(number=1, text=HOSTILE, who="ann", at=0.0)
    words = SweepAnnotations(sweep_id="made-up-1", tags=("paper", "v2"), notes=(note,))
    data = replace(SweepExample().data([broken, *fine], [failed]), annotations=words)
    text = report_html(sweep_view(data, catalog(), MADE))
    plain = Tags(report_of([*repeats("b", (1.0, 1.1)), *repeats("c", (2.0, 2.1))]))
    found = Tags(text)
    assert text.count(html.escape(HOSTILE)) >= 11
    assert "paper, v2" in text
    assert f"{html.escape(HOSTILE)} (ann, 1970-01-01 00:00 UTC)" in text
    assert len(found.scripts) == len(plain.scripts) == 3
    assert found.tags.count("img") == 0
    assert found.policy == plain.policy


def test_policy_allows_the_pages_own_scripts_and_no_other() -> None:
    found = Tags(report_of())
    assert len(found.scripts) == 3
    for script in found.scripts:
        digest = b64encode(hashlib.sha256(script.encode()).digest()).decode()
        assert f"'sha256-{digest}'" in found.policy
    assert found.policy.startswith("default-src 'none'; script-src 'sha256-")
    script_source = re.findall(r"script-src ([^;]*);", found.policy)
    assert "unsafe" not in script_source[0]
    assert found.policy == policy_for(found.scripts)


def test_nothing_of_the_page_points_outside_it() -> None:
    links = Tags(report_of()).links
    assert links
    assert [link for link in links if not link.startswith(("#", "data:,"))] == []


def test_plotly_is_in_a_page_with_charts_only() -> None:
    none = report_of([])
    assert "Nothing has been measured yet." in none
    assert len(Tags(none).scripts) == 1
    assert len(none) < 50_000


@pytest.mark.parametrize(
    "name", ["page.html", "page.css", "page.js", "theme.js", "parts.html", "report.html"]
)
def test_templates_come_with_the_package(name: str) -> None:
    assert files(PACKAGE).joinpath("templates", name).read_text().strip()


def written(devices: int) -> str:
    data = SweepExample(devices=devices, workloads=10, repeats=3, samples=100).data()
    return report_html(sweep_view(data, catalog(), MADE))


def calls_to_write(devices: int) -> int:
    """Return how many functions are called and returned from: the same on any machine."""
    events = itertools.count()
    former = sys.getprofile()
    sys.setprofile(lambda *_: next(events))
    try:
        written(devices)
    finally:
        sys.setprofile(former)
    return next(events)


def test_a_report_of_twice_the_devices_is_twice_the_work() -> None:
    written(1)  # what is made once and kept
    few, more, many = map(calls_to_write, (5, 10, 20))
    assert many - more < 3 * (more - few), "twice as many more: were it quadratic, four times"


def test_large_report_has_all_that_was_measured(figure: Figure) -> None:
    started = time.process_time()
    text = written(20)
    used_s = time.process_time() - started
    figure("CPU seconds to write a report of 20 devices × 10 workloads", used_s, "5")
    assert text.count('<div id="ranking-') == 20
    assert text.count('<th scope="row">') >= 10 * 20 + 20


def test_a_page_needs_a_body_of_its_own() -> None:
    page = Page("A & B", "", "page.html", [("x", "X")], [], {})
    with pytest.raises(Exception, match="Required block 'main' not found"):
        render(page)


def test_a_charts_figure_is_one_that_plotly_knows() -> None:
    chart = points(Point("a<b", 0.5, (0.4, 0.7)), Point("c", 0.25))
    figure = go.Figure(chart.figure)
    (trace,) = figure.data
    assert list(trace.x) == [500.0, 250.0]
    assert list(trace.error_x.array) == pytest.approx([200.0, 0.0])
    assert list(trace.error_x.arrayminus) == pytest.approx([100.0, 0.0])
    assert list(figure.layout.yaxis.ticktext) == ["a&lt;b", "c"]
    assert figure.layout.xaxis.title.text == "step time (ms)"
    assert figure.layout.height == chart.height


def test_a_target_is_a_line_through_all_rows() -> None:
    axis = axis_for("top-1", Unit.FRACTION, [0.7])
    chart = points_chart("x", "X", "", [Point("a", 0.7), Point("b", 0.8)], axis, 0.75)
    line, _ = go.Figure(chart.figure).data
    assert (list(line.x), list(line.y)) == ([75.0, 75.0], [-0.5, 1.5])


@pytest.mark.parametrize(("slowest", "kind"), [(2.0, "linear"), (200.0, "log")])
def test_values_far_apart_are_drawn_on_a_logarithmic_axis(slowest: float, kind: str) -> None:
    figure = go.Figure(points(Point("a", 1.0), Point("b", slowest)).figure)
    assert figure.layout.xaxis.type == kind


def test_long_labels_are_wrapped_and_make_the_chart_higher() -> None:
    short = points(Point("short", 1.0), Point("b", 2.0))
    long = points(Point("device-with-a-name · channels_last bf16 threads=2", 1.0), Point("b", 2.0))
    assert long.height > short.height
    ticks = go.Figure(long.figure).layout.yaxis.ticktext
    assert max(len(line) for line in ticks[0].split("<br>")) <= 24


@pytest.mark.parametrize(
    ("unit", "values", "title"),
    [
        (Unit.SECONDS, [0.5], "m (ms)"),
        (Unit.SECONDS, [0.5, 1.5], "m (s)"),
        (Unit.FRACTION, [0.5], "m (%)"),
        (Unit.BYTES, [1e9], "m (GiB)"),
        (Unit.SAMPLES_PER_SECOND, [1.0], "m (samples/s)"),
        (Unit.LOSS, [1.0], "m"),
    ],
)
def test_axes_say_their_unit(unit: Unit, values: list[float], title: str) -> None:
    assert axis_for("m", unit, values).title == title


def points(*of: Point) -> Chart:
    axis = axis_for("step time", Unit.SECONDS, [0.5])
    return points_chart("x", "X", "what it shows", of, axis)
