"""Published results stand in a ranking beside ours, marked, and decide nothing there."""

from __future__ import annotations

from typing import Any

import pytest

from controller.contracts.base import Scalar
from controller.contracts.imported import ImportedResult
from controller.contracts.records import StoredResult
from controller.contracts.result import Validity
from controller.reports.html.report import report_html
from controller.reports.outcome_lists import result_lines
from controller.reports.views.model import ReportView
from controller.reports.views.sweep import SweepData, sweep_view
from tests.support.imported_examples import imported
from tests.support.sweep_examples import MADE, SweepExample, catalog, queried, result

OURS = [
    result(
        workload="w1",
        device=device,
        device_name=device,
        scenario="single_stream",
        stack="tflite",
        repeat=repeat,
        knobs={"size": 1, "numerics": "int8"},
        metrics=queried((seconds,) * 20),
    )
    for device, seconds in (("phone-a", 0.010), ("phone-b", 0.020))
    for repeat in range(2)
]
MARK = "Acme rocket_9 (imported, MLPerf Mobile v4.0 closed)"


def view(
    theirs: list[ImportedResult],
    ours: list[StoredResult] = OURS,
    baseline: dict[str, Scalar] | None = None,
) -> ReportView:
    data = SweepExample(baseline=baseline or {}).data(ours)
    with_theirs = SweepData(data.record, data.runs, data.results, data.failures, None, theirs)
    return sweep_view(with_theirs, catalog(), MADE)


def test_a_published_result_has_a_row_that_says_what_it_is() -> None:
    (ranking,) = view([imported(0.015)]).rankings
    assert [(row.rank, str(row.device)) for row in ranking.rows] == [
        (1, "phone-a"),
        (2, MARK),
        (3, "phone-b"),
    ]
    row = ranking.rows[1]
    assert (row.median, row.interval, row.stack) == (0.015, None, "acmenn")
    assert row.label.startswith(MARK)
    assert row.vs_best
    assert row.vs_best.value == pytest.approx(0.010 / 0.015)
    assert ranking.columns.several_stacks


@pytest.mark.parametrize(
    ("other", "mark"),
    [
        ({"division": "open"}, "MLPerf Mobile v4.0 open"),
        ({"round": "v3.1"}, "MLPerf Mobile v3.1 closed"),
        ({"suite": "MLPerf Inference", "round": "v5.0"}, "MLPerf Inference v5.0 closed"),
        ({"division": ""}, "MLPerf Mobile v4.0"),
    ],
)
def test_a_system_has_a_row_for_each_round_and_division(other: dict[str, str], mark: str) -> None:
    said: dict[str, Any] = {"checksum": "1" * 64, **other}
    elsewhere = imported(0.016, **said)
    theirs = [imported(0.015), elsewhere]
    (ranking,) = view(theirs).rankings
    rows = [row for row in ranking.rows if row.device.imported_from]
    assert [(row.median, row.valid) for row in rows] == [(0.015, 1), (0.016, 1)]
    assert [row.device.imported_from for row in rows] == ["MLPerf Mobile v4.0 closed", mark]
    assert mark in rows[1].label


def test_without_them_the_report_is_the_same_but_for_their_rows() -> None:
    alone, beside = view([]), view([imported(0.001)])
    (mine,), (ranking,) = alone.rankings, beside.rankings
    assert ranking.verdicts == mine.verdicts
    assert ranking.columns.details == mine.columns.details
    assert ranking.columns.knobs == mine.columns.knobs
    assert (beside.scoreboards, beside.conditions) == (alone.scoreboards, alone.conditions)
    assert (beside.rejected, beside.failed) == (alone.rejected, alone.failed)
    assert dict(alone.facts) == {k: v for k, v in beside.facts if k != "Imported"}
    assert dict(beside.facts)["Imported"] == (
        "1 of MLPerf Mobile v4.0 closed, measured by their submitters, and not checked here"
    )


@pytest.mark.parametrize(
    "baseline", [{"device": imported().device}, {"stack": "acmenn"}, {"workload": "w1"}]
)
def test_it_is_never_a_baseline(baseline: dict[str, Scalar]) -> None:
    (ranking,) = view([imported(0.001)], baseline=baseline).rankings
    theirs = [row for row in ranking.rows if row.device.imported_from]
    assert [row.is_reference for row in theirs] == [False]
    others = [row for row in ranking.rows if not row.device.imported_from]
    assert all(row.other_device is None for row in others)
    if "workload" not in baseline:
        assert all(row.vs_reference is None for row in ranking.rows)


@pytest.mark.parametrize(
    "other",
    [
        imported(workload="w3"),
        imported(knobs={"size": 2}),
        imported().model_copy(update={"scenario": "unheard_of"}),
        imported().model_copy(update={"counted": False}),
    ],
    ids=["workload", "problem", "scenario", "late"],
)
def test_other_work_is_not_ranked(other: ImportedResult) -> None:
    assert view([other]) == view([])


def test_a_virtual_phone_is_never_ranked_beside_a_published_one() -> None:
    virtual = [one.model_copy(update={"virtual": True}) for one in OURS]
    assert view([imported()], virtual).rankings == view([], virtual).rankings


def test_an_invalid_one_has_no_rank_and_its_reason() -> None:
    (ranking,) = view([imported(validity=Validity.INVALID)]).rankings
    assert (ranking.rows[-1].rank, ranking.rows[-1].reasons) == (None, ("too short",))


def test_the_page_marks_it_and_draws_nothing_a_submitter_wrote_as_markup() -> None:
    hostile = imported(system="<img src=x onerror=alert(2)>")
    page = report_html(view([hostile]))
    assert '<span class="chip">imported</span>' in page
    assert "MLPerf Mobile v4.0" in page
    assert "<img src=x" not in page


def test_a_list_marks_every_row() -> None:
    lines = result_lines([imported(), imported(0.1, system="other")], {}, 200)
    rows = [line for line in lines if "Acme" in line]
    assert len(rows) == 2
    assert all("(imported," in row.replace("\u00a0", " ") for row in rows)
