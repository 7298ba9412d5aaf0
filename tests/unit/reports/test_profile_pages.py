"""Pages of profiles: the tree of a step, shares side by side, phases."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from typing import Any

import plotly.graph_objects as go
import pytest

from controller.contracts.counters import Counters, PhaseCounts
from controller.profiles.model import Profile
from controller.profiles.parts import NO_PHASE, UNEXPLAINED
from controller.reports.counter_lines import counts_rows
from controller.reports.html.profile import FOUND, TOP, profile_html
from controller.reports.html.profile_charts import (
    LEAST_SHARE,
    MOST_FRAMES,
    PALETTE,
    charts_of,
    colours_of,
    tree_of,
)
from controller.reports.html.profiles import profiles_html, share_rows
from controller.reports.profile_lines import OUTSIDE, Line, kind_lines, phase_lines
from controller.reports.profile_tables import calls_text, duration, rounded
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
