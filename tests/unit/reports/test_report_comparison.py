from __future__ import annotations

import pytest

from controller.contracts.errors import Incomparable, NotFound
from controller.contracts.records import StoredResult
from controller.reports.views.comparison import comparison_view
from controller.reports.views.model import Ranking, ReportView
from tests.support.sweep_examples import MADE, catalog, repeats


def compared(subjects: list[str], *results: list[StoredResult]) -> ReportView:
    every = [one for of in results for one in of]
    return comparison_view(subjects, every, [], catalog(), MADE)


def only(view: ReportView) -> Ranking:
    (ranking,) = view.rankings
    return ranking


def test_devices_are_compared_where_they_ran_the_same() -> None:
    view = compared(
        ["a", "b"],
        repeats("a", (1.0, 1.0), (1.0, 1.0)),
        repeats("b", (2.0, 2.0), (2.0, 2.0)),
        repeats("b", (1.0, 1.0), knobs={"precision": "bf16"}),
        repeats("c", (0.1, 0.1)),
    )
    ranking = only(view)
    assert ranking.reference == "a"
    assert ranking.verdicts == (
        "b · bf16: a has nothing to compare it with.",
        "b · fp32: 0.50× [0.50, 0.50] as fast as a (step time 2.000 s).",
    )
    assert {row.device.id for row in ranking.rows} == {"a", "b"}


def test_sweeps_are_compared_on_the_same_device_with_the_same_cell() -> None:
    view = compared(
        ["s1", "s2"],
        repeats("a", (1.0, 1.01), (1.0, 0.99), (1.0, 1.0), sweep_id="s1"),
        repeats("a", (1.0, 1.01), (1.0, 0.99), (1.0, 1.0), sweep_id="s2"),
        repeats("b", (3.0, 3.0), (3.0, 3.0), sweep_id="s1"),
        repeats("b", (1.0, 1.0), (1.0, 1.0), sweep_id="s2"),
    )
    assert dict(view.facts)["sweep 1"] == "s1"
    same, faster = sorted(only(view).verdicts)
    assert same.startswith("s2 · a and s1: not resolved, 1.00× [0.98, 1.02], 3.6 % wide (±1.8 %)")
    assert faster == "s2 · b: 3.00× [3.00, 3.00] as fast as s1 (step time 1.000 s)."


def test_cells_are_compared_on_the_same_device() -> None:
    plain = repeats("a", (2.0, 2.0), (2.0, 2.0))
    tuned = repeats("a", (1.0, 1.0), (1.0, 1.0), knobs={"precision": "bf16"})
    view = compared([plain[0].cell_key, tuned[0].cell_key], plain, tuned)
    (verdict,) = only(view).verdicts
    assert "bf16: 2.00× [2.00, 2.00] as fast as " in verdict


def test_virtual_devices_are_marked_in_a_comparison_too() -> None:
    view = compared(
        ["v", "w"], repeats("v", (1.0,), virtual=True), repeats("w", (2.0,), virtual=True)
    )
    assert only(view).verdicts == (
        "w (virtual): 0.50× as fast as v (virtual); a single run gives no interval.",
    )
    assert dict(view.facts)["device 1"] == "v (virtual)"


@pytest.mark.parametrize(
    ("subjects", "said"),
    [
        (["real", "made-up-1"], "real is a device, made-up-1 is a sweep"),
        (["real", "v"], "v is virtual: its numbers say nothing about a real device"),
        (["real", "real"], "one is named twice"),
    ],
)
def test_what_is_unlike_is_not_compared(subjects: list[str], said: str) -> None:
    with pytest.raises(Incomparable) as caught:
        compared(subjects, repeats("real", (1.0,)), repeats("v", (1.0,), virtual=True))
    assert said in str(caught.value)


def test_subject_nobody_knows_is_named() -> None:
    with pytest.raises(NotFound, match="cannot find nobody: no sweep, device or cell"):
        compared(["real", "nobody"], repeats("real", (1.0,)))
