"""Pages of profiles: the tree of a step, shares side by side, phases."""

from __future__ import annotations

import json
import re
from typing import Any

import plotly.graph_objects as go
import pytest

from controller.profiles.parts import NO_PHASE
from controller.reports.html.profile import FOUND, TOP, profile_html
from controller.reports.html.profile_charts import (
    LEAST_SHARE,
    MOST_FRAMES,
    charts_of,
    colours_of,
    tree_of,
)
from controller.reports.html.profiles import profiles_html, share_rows
from controller.reports.profile_lines import OUTSIDE, kind_lines, phase_lines
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
