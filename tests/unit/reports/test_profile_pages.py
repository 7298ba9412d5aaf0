"""Pages of profiles: the tree of a step, shares side by side, phases."""

from __future__ import annotations

import html
import json
import math
import re
from collections.abc import Sequence
from dataclasses import replace
from itertools import combinations
from typing import Any

import plotly.graph_objects as go
import pytest

from controller.contracts.counters import Counters, PhaseCounts
from controller.profiles.counts import calls_text
from controller.profiles.model import Place, PrimitiveRow, Profile
from controller.profiles.parts import NO_PHASE, UNEXPLAINED
from controller.reports.counter_lines import counts_rows
from controller.reports.html.charts import LONGEST_LABEL
from controller.reports.html.profile import FOUND, TOP, profile_html
from controller.reports.html.profile_charts import (
    HATCHED,
    HEIGHT,
    LEAST_SHARE,
    MOST_FRAMES,
    PALETTE,
    PLAIN,
    charts_of,
    colours_of,
    donut,
    tree_of,
)
from controller.reports.html.profiles import profiles_html, share_rows
from controller.reports.html.text import escape
from controller.reports.profile_lines import (
    NO_EFFICIENCY,
    NO_HEADROOM,
    NO_OPS,
    OUTSIDE,
    Line,
    kind_lines,
    phase_lines,
    untold_lines,
)
from controller.reports.profile_tables import duration, rounded
from tests.support.planted_profile import HEAD, kernel, profile, step


def figures_of(page: str) -> dict[str, Any]:
    """Return the figures of a page by anchor."""
    found = re.search(r'id="figures">(.*?)</script>', page, re.DOTALL)
    assert found
    figures: dict[str, Any] = json.loads(found[1])
    for figure in figures.values():
        go.Figure(figure)  # refuses what plotly does not know
    return figures


def test_the_tree_has_all_time_and_each_frame_what_is_in_it() -> None:
    tree = tree_of(profile(step()))
    assert tree[("step",)] == pytest.approx(0.5)
    assert tree["step", "forward"] == pytest.approx(0.46)
    assert tree["step", "forward", HEAD, "aten::mm"] == pytest.approx(0.06)
    body = tree["step", "forward", "body", "0"]
    assert body == pytest.approx(0.16)
    inside = [path for path in tree if path[:4] == ("step", "forward", "body", "0")]
    assert ("step", "forward", "body", "0", "aten::conv2d", "reorder jit:avx2") in inside
    for path in tree:  # what encloses comes first
        assert len(path) == 1 or list(tree).index(path[:-1]) < list(tree).index(path)
    children: dict[tuple[str, ...], float] = {}
    for path, seconds in tree.items():
        children[path[:-1]] = children.get(path[:-1], 0.0) + seconds
    assert all(children.get(path, 0.0) <= of * (1 + 1e-9) for path, of in tree.items())


def test_phases_come_in_their_order_in_tree_and_table() -> None:
    rows = [kernel(f"aten::{phase}", 0.1, phase=phase) for phase in ("optimizer", "", "backward")]
    found = profile([*rows, kernel("aten::conv2d", 0.2)])
    phases = [line.key[0] for line in phase_lines(found).lines]
    assert phases == ["forward", "backward", "optimizer", NO_PHASE]
    second = [path[1] for path in tree_of(found) if len(path) == 2]
    assert second == ["forward", "backward", "optimizer", "aten::"]
    assert phase_lines(profile([kernel("aten::mm", 0.1, phase="")])).lines == []


def test_frames_that_are_too_small_or_too_many_are_left_out() -> None:
    small = [kernel(f"aten::op{n}", LEAST_SHARE / 2, module=f"small{n}") for n in range(9)]
    tree = tree_of(profile([kernel("aten::mm", 1.0, module=HEAD), *small]))
    assert not any("small" in frame for path in tree for frame in path)
    assert tree[("step",)] == pytest.approx(1.0 + 9 * LEAST_SHARE / 2)
    many = [kernel("aten::mm", 1.0, module=f"m{n}.inner") for n in range(900)]
    assert 1 < len(tree_of(profile(many))) <= MOST_FRAMES
    assert tree_of(profile([])) == {}


def summarised(found: Profile, **told: object) -> Profile:
    return replace(found, summary=found.summary.model_copy(update=told))


def test_a_frame_tells_its_time_and_shares_as_the_tables_do() -> None:
    page = profile_html(profile([kernel("aten::mm", 12.3456), kernel("aten::relu", 1e-2)]), "it")
    (tree,) = figures_of(page)["tree"]["data"]
    assert tree["text"] == ["12.356 s", "12.356 s", "12.346 s"]
    assert "%{text} a step" in tree["hovertemplate"]
    shares = re.findall(r"%{percent\w+[^}]*}", tree["hovertemplate"])
    assert shares == ["%{percentRoot:.1%}", "%{percentParent:.1%}"]


@pytest.mark.parametrize(("steps", "root"), [(5, "step"), (None, "all")])
def test_a_tree_is_of_a_step_only_where_steps_are_told_apart(steps: int | None, root: str) -> None:
    found = summarised(profile([*step(), kernel("aten::mm", 0.1, phase="")]), steps=steps)
    tree = tree_of(found)
    assert {path[0] for path in tree} == {root}
    assert (root, "aten::mm") in tree
    (chart,) = (chart for chart in charts_of(found) if chart.anchor == "tree")
    assert chart.title == f"Tree of {'a step' if steps else 'all'}"


def test_a_chart_s_label_says_where_its_numbers_are() -> None:
    page = profile_html(profile(step()), "it")
    labels = dict(re.findall(r'<div id="(\w+)" class="plot".*?aria-label="(.*?)"', page, re.DOTALL))
    assert labels["tree"].endswith("The tables below add up the same time.")
    assert labels["shares"].endswith("The table below has the numbers.")


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (duration(12.3456), "12.346 s"),
        (duration(0.0123456), "12.35 ms"),
        (calls_text(2.5), "2.5"),
        (calls_text(984.0), "984"),
        (calls_text(123_456.0), "123,456"),
        (calls_text(999_999.6), "1,000,000"),
        (calls_text(2_500_000.0), "2,500,000"),
        (rounded(0.123456), "0.1235"),
        (rounded(12345.6), "12,346"),
    ],
)
def test_numbers_have_no_powers_of_ten(text: str, expected: str) -> None:
    assert text == expected


FORWARD = PhaseCounts(
    phase="forward",
    seconds=12.3456,
    minor_faults=1,
    major_faults=0,
    voluntary_switches=1,
    involuntary_switches=1,
    user_s=20.0,
    system_s=0.0125,
)


def test_a_page_says_that_the_run_of_the_counts_was_disturbed() -> None:
    counters = Counters(steps=5, phases=(FORWARD,), notes=("others kept <1.8> cores busy",))
    page = profile_html(summarised(profile(step()), counters=counters), "it")
    section = page.split('id="counts"')[1].split("</section>")[0]
    note = "the run that counts: others kept &lt;1.8&gt; cores busy"
    assert f'<p class="note">{note}</p>' in section
    (row,) = counts_rows(counters)
    assert (row[1], *row[-2:]) == ("12.346 s", "20.000 s", "12.5 ms")


def watched() -> Profile:
    """Return a profile of a verbose run, none of which was in oneDNN."""
    rows = [kernel("aten::addmm", 0.9), kernel("", 0.1)]
    return summarised(profile(rows), verbose_step_s=1.0)


def test_a_step_of_which_nothing_was_in_onednn_is_outside() -> None:
    shares = [(line.key[0], line.share) for line in kind_lines(watched()).lines]
    assert [name for name, _ in shares] == [OUTSIDE, UNEXPLAINED]
    assert [share for _, share in shares] == pytest.approx([0.9, 0.1])
    page = profiles_html([("one", profile(step())), ("fp32", watched())], "Profiles")
    assert list(figures_of(page)) == ["shares-1", "shares-2"]
    rows = dict(share_rows([kind_lines(found).lines for found in (profile(step()), watched())]))
    assert rows[OUTSIDE] == ["36.4%", "90.0%"]
    assert rows["reorder"] == ["4.0%", "–"]
    assert "shares" in figures_of(profile_html(watched(), "it"))


def test_a_trace_that_tells_no_primitives_claims_no_shares() -> None:
    traced = summarised(watched(), verbose_step_s=None)
    assert kind_lines(traced).lines == []
    page = profiles_html([("one", profile(step())), ("a trace", traced)], "Profiles")
    assert list(figures_of(page)) == ["shares-1"]
    note = "<li>note: no shares of primitives: the trace does not tell which of its time is oneDNN"
    assert page.count(note) == 1
    assert ">not told</td>" in page
    page = profile_html(traced, "it")
    assert list(figures_of(page)) == ["tree"]
    assert note in page
    assert note not in profile_html(watched(), "it")


def test_all_kinds_have_colours_of_their_own() -> None:
    lines = [Line((f"kind{n}", ""), 1, 1.0, 1 / (n + 1), None, None) for n in range(60)]
    colours = [colours_of([lines])[line.key] for line in lines]
    assert colours[: len(PALETTE)] == [*PALETTE]
    assert len(set(colours)) == 60
    assert all(re.fullmatch("#[0-9a-f]{6}", colour) for colour in colours)


def test_an_empty_profile_has_no_charts() -> None:
    assert list(charts_of(profile([]))) == []


def test_shares_side_by_side_come_to_all_and_colours_agree() -> None:
    one, other = profile(step()), profile([*step()[:-1], kernel("aten::lstm", 2.0)])
    page = profiles_html([("one", one), ("two <b>", other)], "Profiles one, two")
    figures = figures_of(page)
    assert list(figures) == ["shares-1", "shares-2"]
    colours: dict[str, set[str]] = {}
    for figure, found in zip(figures.values(), (one, other), strict=True):
        (pie,) = figure["data"]
        whole = sum(line.seconds for line in kind_lines(found).lines)
        assert sum(pie["values"]) == pytest.approx(whole * 1e3)
        for label, colour in zip(pie["labels"], pie["marker"]["colors"], strict=False):
            colours.setdefault(label, set()).add(colour)
    assert set(colours) == {"convolution FWD_D", "reorder", OUTSIDE}
    assert all(len(found) == 1 for found in colours.values())
    assert "two &lt;b&gt;" in page
    assert "two <b>" not in page


def test_rows_of_shares_have_each_kind_once_and_a_dash_for_none() -> None:
    tables = [
        kind_lines(profile(step())).lines,
        kind_lines(profile([row for row in step() if "reorder" not in str(row)])).lines,
    ]
    rows = dict(share_rows(tables))
    assert list(rows) == ["convolution FWD_D", OUTSIDE, "reorder"]
    assert rows["reorder"] == ["4.0%", "–"]
    assert rows["convolution FWD_D"] == ["59.6%", "62.1%"]
    assert len(set(colours_of(tables).values())) == 3


def test_rows_that_are_not_shown_can_be_found() -> None:
    rows = [kernel(f"aten::op{n}", 1.0 + n, module=f"m{n}") for n in range(FOUND + 10)]
    page = profile_html(profile(rows), "Profile")
    (table,) = re.findall(r'<section id="ops".*?</section>', page, re.DOTALL)
    assert table.count("<tr>") == 1 + TOP  # one of headings
    assert table.count("<tr hidden>") == FOUND - TOP
    assert f"The {TOP} largest of {FOUND + 10}; the {FOUND} largest can be found." in table


def test_long_names_are_shortened_as_in_charts() -> None:
    module = "<module>." + "x" * 1_000
    page = profile_html(profile([kernel("aten::mm", 1.0, module=module)]), "Profile")
    (table,) = re.findall(r'<section id="modules".*?</section>', page, re.DOTALL)
    (whole, shown) = re.findall(r'<t[hd][^>]* title="([^"]*)">(.*?)</t', table)[0]
    assert whole == escape(module)
    assert html.unescape(shown) == f"{module[: LONGEST_LABEL - 1]}…"
    assert " title=" not in profile_html(profile(step()), "Profile").split('id="modules"')[1]


def _linear(colour: str) -> list[float]:
    parts = [int(colour[at : at + 2], 16) / 255 for at in (1, 3, 5)]
    return [p / 12.92 if p <= 0.04045 else ((p + 0.055) / 1.055) ** 2.4 for p in parts]


def _contrast(one: str, other: str) -> float:
    """Return WCAG 2.2's contrast of two colours."""
    weights = (0.2126, 0.7152, 0.0722)
    lights = sorted(
        sum(weight * part for weight, part in zip(weights, _linear(colour), strict=True)) + 0.05
        for colour in (one, other)
    )
    return lights[1] / lights[0]


def test_texts_on_slices_and_frames_are_read_well() -> None:
    """WCAG 2.2 AA asks for 4.5."""
    lines = [Line((f"kind{n}", ""), 1, 1.0, 1 / (n + 1), None, None) for n in range(30)]
    shown = donut("shares", "Shares", "", lines, colours_of([lines])).figure["data"][0]
    (tree,) = figures_of(profile_html(profile(step()), "it"))["tree"]["data"]
    for trace, font in ((shown, shown["insidetextfont"]), (tree, tree["textfont"])):
        pairs = list(zip(trace["marker"]["colors"], font["color"], strict=True))
        assert len(pairs) > 5
        # Variables are the theme's, whose ink on its surface is tested in a browser.
        assert all(ink == "var(--ink)" or _contrast(hue, ink) >= 4.5 for hue, ink in pairs)
    assert tree["leaf"] == {"opacity": 1}, "else the page shines through"


SEEN = {
    "": ((1, 0, 0), (0, 1, 0), (0, 0, 1)),
    "protanopia": (
        (0.152286, 1.052583, -0.204868),
        (0.114503, 0.786281, 0.099216),
        (-0.003882, -0.048116, 1.051998),
    ),
    "deuteranopia": (
        (0.367322, 0.860646, -0.227968),
        (0.280085, 0.672501, 0.047413),
        (-0.011820, 0.042940, 0.968881),
    ),
    "tritanopia": (
        (1.255528, -0.076749, -0.178779),
        (-0.078411, 0.930809, 0.147602),
        (0.004733, 0.691367, 0.303900),
    ),
}
"""Linear RGB as it is seen: Machado, Oliveira and Fernandes 2009, severity 1."""
XYZ = ((0.4124, 0.3576, 0.1805), (0.2126, 0.7152, 0.0722), (0.0193, 0.1192, 0.9505))
WHITE = (0.9505, 1.0, 1.089)


def _times(matrix: Sequence[Sequence[float]], vector: Sequence[float]) -> list[float]:
    return [sum(a * b for a, b in zip(row, vector, strict=True)) for row in matrix]


def _lab(colour: str, seen: Sequence[Sequence[float]]) -> tuple[float, float, float]:
    """Return CIE L*a*b* of a colour as it is seen."""
    light = [min(1.0, max(0.0, part)) for part in _times(seen, _linear(colour))]
    parts = [of / white for of, white in zip(_times(XYZ, light), WHITE, strict=True)]
    x, y, z = (p ** (1 / 3) if p > 0.008856 else 7.787 * p + 16 / 116 for p in parts)
    return 116 * y - 16, 500 * (x - y), 200 * (y - z)


@pytest.mark.parametrize("colours", [PLAIN, HATCHED])
@pytest.mark.parametrize("sight", SEEN)
def test_the_colour_blind_tell_slices_apart(colours: Sequence[str], sight: str) -> None:
    """By 15 of CIE 1976's difference; 2.3 is just seen. Those of the other six are hatched."""
    for one, other in combinations(colours, 2):
        assert math.dist(_lab(one, SEEN[sight]), _lab(other, SEEN[sight])) > 15, (one, other)
    assert {*PLAIN}.isdisjoint(HATCHED)


def test_a_donut_has_room_for_its_legend_and_says_shares_as_its_table_does() -> None:
    lines = [Line((f"kind{n}", ""), 1, 905.0, 0.0905, None, None) for n in range(11)]
    lines.append(Line(("last", ""), 1, 45.0, 0.0045, None, None))
    few, many = (
        donut("shares", "Shares", "", of, colours_of([lines])) for of in (lines[:3], lines)
    )
    assert few.height == HEIGHT
    assert many.height >= HEIGHT + 6 * 19, "12 lines, where 6 have room"
    assert many.figure["layout"]["height"] == many.height
    assert many.figure["data"][0]["text"] == ["9.0%"] * 11 + ["0.4%"]
    shapes = many.figure["data"][0]["marker"]["pattern"]["shape"]
    assert shapes == [""] * 6 + ["/"] * 6


def test_figures_of_a_bad_profile_say_so_beside_others() -> None:
    bad = summarised(profile(step()), validity="INVALID", reasons=("others were there",))
    page = profiles_html([("good", profile(step())), ("bad", bad)], "Profiles")
    assert ">good</th>" in page
    assert ">bad, INVALID</th>" in page
    titles = re.findall(r"<h\d[^>]*>([^<]*)</h\d>", page)
    assert "bad, INVALID" in titles
    assert "bad" not in titles


def test_a_log_has_no_time_in_no_operation() -> None:
    rows = [replace(row, place=Place()) for row in step() if isinstance(row, PrimitiveRow)]
    names = {name for path in tree_of(profile(rows)) for name in path}
    assert UNEXPLAINED not in names
    assert "reorder jit:avx2" in names


def test_a_page_says_what_is_not_known_and_why() -> None:
    rows = [replace(row, place=Place()) for row in step() if isinstance(row, PrimitiveRow)]
    untold = summarised(profile(rows), efficiency=None, headroom_s=None)
    assert untold_lines(untold) == [NO_OPS, NO_EFFICIENCY, NO_HEADROOM]
    page = profile_html(untold, "a log")
    assert all(f"<li>{escape(line)}" in page for line in (NO_OPS, NO_EFFICIENCY, NO_HEADROOM))
    known = summarised(profile(step()), efficiency=0.9, headroom_s=0.1)
    assert untold_lines(known) == []


def test_no_time_at_all_is_no_donut() -> None:
    primitives = [row for row in step() if isinstance(row, PrimitiveRow)]
    of_log = [replace(row, place=Place(), seconds=0.0) for row in primitives]
    assert list(charts_of(profile(of_log))) == []


def test_the_tree_says_how_much_of_the_time_it_does_not_draw() -> None:
    """2,000 frames of the largest: where all are alike, many a leaf is none of them."""
    rows = [kernel("aten::mm", 0.001, module=f"s{n}.b{n}.inner") for n in range(900)]
    many = profile(rows)
    drawn = tree_of(many)
    leaves = sum(of for path, of in drawn.items() if path[-1] == "aten::mm")
    (chart,) = (chart for chart in charts_of(many) if chart.anchor == "tree")
    assert f"{duration(0.9 - leaves)} are of frames that are not" in chart.caption
