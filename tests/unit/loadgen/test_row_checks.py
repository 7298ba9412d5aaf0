"""Ranks and ratios of a board's rows, computed again from made-up results."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest

from controller.contracts.records import StoredResult
from controller.contracts.result import Validity
from controller.loadgen.board_checks import board_checks
from controller.loadgen.checks import Verdict
from controller.reports.board_data import board_json
from tests.support.boards import answered, board_of
from tests.support.imported_examples import imported
from tests.support.sweep_examples import failure, repeats, result, trained

Rows = list[dict[str, Any]]
OURS: list[StoredResult] = [
    *repeats("a", (1.0,) * 4, (1.1,) * 4),
    *repeats("b", (2.0,) * 4, (2.2,) * 4),
    *repeats("tied", (2.0,) * 4, (2.2,) * 4),
    result(device="c", validity=Validity.DISTURBED, reasons=("x",), metrics=trained((0.1,) * 4)),
    result(device="d", validity=Validity.INVALID, reasons=("x",), metrics=trained((0.1,) * 4)),
    answered("p", 0.01, 0.03),
    answered("q", 0.02),
]
THEIRS = imported(0.001, "w0")
RESULTS = [*OURS, THEIRS]


def differing(change: Callable[[Rows], object]) -> set[str]:
    """Return the figures that differ once the rows of training have been changed."""
    told = json.loads(board_json(board_of(OURS, [failure(device="a")], imported=[THEIRS])))
    change(next(r["rows"] for r in told["rankings"] if r["scenario"] == "training"))
    found = board_checks(told, {f"runs/{r.run_id}": r for r in RESULTS})
    assert len(found) == len(RESULTS)
    checks = [check for of in found.values() for check in of]
    assert {c.figure for c in checks if c.verdict is Verdict.UNCHECKED} <= {
        "data/board.json: failed"
    }
    return {c.figure.partition(": ")[2] for c in checks if c.verdict is Verdict.DIFFERS}


def swapped(rows: Rows) -> None:
    rows[0]["rank"], rows[1]["rank"] = rows[1]["rank"], rows[0]["rank"]


def reordered(rows: Rows) -> None:
    rows[0], rows[1] = rows[1], rows[0]
    swapped(rows)


def row_of(rows: Rows, device: str) -> dict[str, Any]:
    return next(row for row in rows if row["device"]["id"] == device)


def test_a_board_as_it_was_written_has_no_difference() -> None:
    assert differing(lambda rows: None) == set()


@pytest.mark.parametrize("validity", Validity)
def test_a_rate_is_ranked_by_its_size_whether_or_not_a_result_is_valid(validity: Validity) -> None:
    reasons = () if validity is Validity.VALID else ("x",)
    ours = [
        *repeats("slow", (2.0,) * 4, scenario="offline", validity=validity, reasons=reasons),
        *repeats("fast", (1.0,) * 4, scenario="offline", validity=validity, reasons=reasons),
    ]
    told = json.loads(board_json(board_of(ours)))
    (ranking,) = told["rankings"]
    assert ranking["metric"]["unit"] == ours[0].metrics["throughput"].unit.value
    if validity is Validity.VALID:
        assert [row["device"]["id"] for row in ranking["rows"]] == ["fast", "slow"]
    found = board_checks(told, {f"runs/{r.run_id}": r for r in ours})
    assert len(found) == 2
    assert {c.verdict for checks in found.values() for c in checks} == {Verdict.SAME}


@pytest.mark.parametrize(
    ("change", "figures"),
    [
        (swapped, {"rank"}),
        (reordered, {"rank"}),
        (lambda rows: row_of(rows, "c").update(rank=1), {"rank"}),
        (lambda rows: row_of(rows, "d").update(value=0.1), {"row's step_time"}),
        (lambda rows: row_of(rows, "b").update(vs_best=0.9), {"vs_best"}),
        (lambda rows: row_of(rows, "b").update(vs_best_interval=None), {"vs_best's interval"}),
        (lambda rows: row_of(rows, "a").update(interval=[1.04, 1.06]), {"interval"}),
    ],
)
def test_ranks_and_ratios_are_compared_across_a_ranking(
    change: Callable[[Rows], object], figures: set[str]
) -> None:
    assert differing(change) == figures
