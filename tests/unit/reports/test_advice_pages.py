"""Pages of advice: what is predicted, and beside it what comparisons realised."""

from __future__ import annotations

import html
import json
import re
from typing import Any

import plotly.graph_objects as go
import pytest

from controller.contracts.advice import Advised, Rule
from controller.contracts.proof import Proven
from controller.reports.html.profile_advice import UNPROVED, profile_advice_html
from tests.support.planted_advice import STEP_S, advised, proved
from tests.support.planted_profile import profile, step
from tests.support.sweep_examples import HOSTILE

SUMMARY = profile(step()).summary


def cells_of(page: str) -> list[list[str]]:
    """Return the texts of the rows of a page's only table."""
    (table,) = re.findall(r"<tbody>(.*?)</tbody>", page, re.DOTALL)
    rows = re.findall(r"<tr>(.*?)</tr>", table, re.DOTALL)
    return [[html.unescape(of) for of in re.findall(r"<t[hd].*?>(.*?)</t", row)] for row in rows]


def bars_of(page: str) -> dict[str, Any]:
    """Return the trace of a page's only chart."""
    found = re.search(r'id="figures">(.*?)</script>', page, re.DOTALL)
    assert found
    (figure,) = json.loads(found[1]).values()
    go.Figure(figure)  # refuses what plotly does not know
    (bars,) = figure["data"]
    return {**bars, "labels": figure["layout"]["yaxis"]["ticktext"]}


def test_each_piece_of_advice_has_a_row_and_each_change_a_bar() -> None:
    page = profile_advice_html(SUMMARY, advised(), "Advice for it")
    rows = cells_of(page)
    assert rows[0] == [
        *("fused_optimizer=true", "optimizer", "seen by optimizer"),
        *("100 ms", "[80 ms, 120 ms]", "20.0%"),
    ]
    assert [row[1] for row in rows] == [one.rule for one in advised().advice]
    bars = bars_of(page)
    assert bars["x"] == pytest.approx([100, 60, 60, 15, 10])
    assert bars["error_x"]["array"] == pytest.approx([20, 60, 30, 15, 10])
    assert bars["error_x"]["arrayminus"] == pytest.approx([20, 60, 30, 15, 10])
    assert bars["labels"][0] == "optimizer:<br>fused_optimizer=true"
    assert bars["labels"][1] == "instruction set hidden"
    assert "predicted interval 80 to 120 ms" in bars["hovertext"][0]
    for line in ("The profile is DISTURBED.", "workload net, stack torch, threads 2", UNPROVED):
        assert f"<li>{line}</li>" in page


def test_what_was_realised_is_beside_the_prediction() -> None:
    page = profile_advice_html(SUMMARY, advised(), "Advice for it", proved())
    found = {row[1]: row[6:] for row in cells_of(page)}
    inside = "VALID: at least half of predicted; prediction inside the realised interval"
    assert found["optimizer"] == ["100 ms", "[83.33 ms, 115.4 ms]", "20.0%", inside]
    assert found["instruction set hidden"] == [*"–––", "not provable here: it is not a knob"]
    alone = "predicted of this change alone, by unfused norms, ReLU: 60 ms [30 ms, 90 ms], 12.0%; "
    outside = "VALID: less than half of predicted; prediction outside the realised interval"
    slower = ["-125 ms", "[-166.7 ms, -88.24 ms]", "-25.0%", alone + outside]
    assert found["unfused norms"] == found["ReLU"] == slower
    disturbed = f"DISTURBED: no proof; DISTURBED: beside it ran {HOSTILE}"
    assert found["malloc"] == ["23.81 ms", "–", "4.8%", disturbed]
    less = "not compared: others are predicted to save more"
    assert found["tiny primitives"] == [*"–––", less]
    bars = bars_of(page)
    said = [label for label in bars["labels"] if "realised" in label]
    assert said == ["realised", "realised", "realised, DISTURBED"]
    assert bars["x"] == pytest.approx([100, 100, 60, 60, -125, 15, 23.81, 10], abs=0.01)
    assert "95 % interval 83.33 to 115.4 ms" in bars["hovertext"][1]
    assert "of 2 VALID comparisons with a prediction above 3%" in page
    assert UNPROVED not in page


def test_a_change_is_shown_as_it_was_proved() -> None:
    """Its prediction alone may be more than the list grants it, and of rules not in the list."""
    made = proved()
    first, *others = made.proofs
    told = {"rules": (Rule.LOSS,), "low_s": 0.0, "high_s": 0.3, "share": 0.3}
    alone = first.model_copy(update={"prediction": first.prediction.model_copy(update=told)})
    proven = made.model_copy(update={"proofs": (*others, alone)})
    page = profile_advice_html(SUMMARY, advised(), "Advice for it", proven)
    row = next(row for row in cells_of(page) if row[1] == "optimizer")
    assert row[3:5] == ["100 ms", "[80 ms, 120 ms]"]
    assert row[-1].startswith(
        "predicted of this change alone, by loss: 150 ms [0 ms, 300 ms], 30.0%; VALID: "
    )
    bars = bars_of(page)
    assert bars["x"][:2] == pytest.approx([150, 100])
    assert bars["error_x"]["array"][0] == pytest.approx(150)


@pytest.mark.parametrize("proven", [None, proved()], ids=["predicted", "proven"])
def test_no_name_is_taken_for_markup(proven: Proven | None) -> None:
    page = profile_advice_html(SUMMARY, advised(), HOSTILE, proven)
    assert HOSTILE not in page
    assert html.escape(HOSTILE) in page


def test_a_profile_without_advice_has_a_page_that_says_so() -> None:
    none = Advised(per_step=False, whole_s=STEP_S, validity="VALID")
    page = profile_advice_html(SUMMARY, none, "Advice for it")
    assert "<li>no advice: no rule finds anything in 500 ms in all</li>" in page
    assert UNPROVED not in page
    assert "<table" not in page
    assert "plotly" not in page
