"""The page of what two profiles differ in."""

from __future__ import annotations

import json
import re
from dataclasses import replace

from controller.profiles.diffing import diff
from controller.profiles.model import Profile
from controller.reports.html.profile_diff import profile_diff_html
from tests.support.planted_profile import kernel, profile, step


def rows_of(page: str, table: str) -> list[str]:
    """Return the names of a table's rows."""
    (section,) = re.findall(rf'<section id="{table}".*?</section>', page, re.DOTALL)
    return re.findall(r'<th scope="row">(.*?)</th>', section)


def test_noise_is_one_row_of_the_changes() -> None:
    noisy = [
        replace(row, self_s=row.self_s * 1.05)
        if not hasattr(row, "primitive") and row.place.op == "aten::mm"
        else row
        for row in step()
    ]
    page = profile_diff_html(diff(profile(step()), profile(noisy[:-1])), "Profiles")
    assert rows_of(page, "changes") == [
        "aten::add_: only in A, 2 calls, optimizer: 40 ms → 0 ms",
        "3 changes too small to tell",
    ]


def hovers(one: Profile, other: Profile) -> list[str]:
    """Return the texts of the bars of a diff's page."""
    page = profile_diff_html(diff(one, other), "Profiles")
    found = re.search(r'id="figures">(.*?)</script>', page, re.DOTALL)
    assert found
    (bars,) = json.loads(found[1])["differences"]["data"]
    texts: list[str] = bars["hovertext"]
    return texts


def test_bars_of_one_operation_say_where_each_is() -> None:
    def one(forward_s: float, backward_s: float) -> Profile:
        pairs = (("forward", forward_s), ("backward", backward_s))
        return profile([kernel("aten::mm", of, phase=phase) for phase, of in pairs])

    said = " ".join(hovers(one(0.1, 0.1), one(0.5, 0.3)))
    assert "aten::mm: same work, forward" in said
    assert "aten::mm: same work, backward" in said


def test_a_bar_s_value_has_no_power_of_ten() -> None:
    one = profile([kernel("aten::tiny", 5e-5), kernel("aten::mm", 1.0)])
    said = hovers(one, profile([kernel("aten::mm", 12_660.0)]))
    assert [text.split("<br>")[1] for text in said] == ["12660 s", "-0.00005 s", "0 s"]


def test_what_a_table_leaves_out_is_said() -> None:
    many = [kernel(f"aten::op{n}", 0.001 * (n + 1), module=f"body.{n}") for n in range(130)]
    found = diff(profile(many), profile(many[:1]))
    page = profile_diff_html(found, "Profiles")
    changes = rows_of(page, "changes")
    assert len(changes) == 102
    assert changes[0].startswith("aten::op129: only in A")
    assert changes[100:] == ["29 more changes", "1 changes too small to tell"]
    assert "The 100 largest of 129 changes are in the table." in page
    assert "The 100 largest of 130 modules are in the table." in page
    assert len(rows_of(page, "modules")) == 100
    assert "largest of" not in profile_diff_html(diff(profile(step()), profile(step())), "Profiles")


def test_other_work_is_one_row() -> None:
    many = [kernel(f"aten::op{n}", 0.01) for n in range(50)]
    other = [replace(row, place=replace(row.place, dims="[[3]]")) for row in many[:25]]
    page = profile_diff_html(diff(profile(many), profile([*other, *many[25:]])), "Profiles")
    assert rows_of(page, "changes") == [
        (
            "other work, each time too small to tell: aten::op0 (shapes), aten::op1 (shapes), "
            "aten::op2 (shapes) and 22 more: 250 ms → 250 ms"
        ),
        "25 changes too small to tell",
    ]


def test_a_page_says_what_a_and_b_are() -> None:
    page = profile_diff_html(
        diff(profile(step()), profile(step())), "Profiles", ("before", "after")
    )
    assert re.search(r"<li>A: before</li>\s*<li>B: after</li>", page)
