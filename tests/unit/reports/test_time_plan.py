"""What a comparison says of its time before it begins."""

from __future__ import annotations

import pytest

from controller.contracts.base import Scalar
from controller.contracts.pair import Pair
from controller.contracts.records import StoredResult
from controller.contracts.result import Validity
from controller.contracts.sweep import PairedCandidate, Side
from controller.reports.result_selection import Wanted
from controller.reports.time_plan import Expected, expected_of, plan_text
from tests.support.sweep_examples import result

WANTED = Wanted(
    Side.model_validate("torch"), Side.model_validate("torch:precision=bf16"), "w0", "training",
    {"size": 1}, None,
)  # fmt: skip


def compared(**changes: object) -> StoredResult:
    """Return a comparison whose first pair ended after 5 s, and each other one 2 s later."""
    pairs = tuple(Pair(a=(1.0,), b=(1.0,), a_first=True, ended_s=5.0 + 2 * n) for n in range(6))
    knobs: dict[str, Scalar] = {"size": 1, "precision": "bf16"}
    own: dict[str, object] = {
        "versus": PairedCandidate(stack="torch", knobs=knobs),
        "pairs": pairs,
        "environment": {"setup_s": 40.0},
    }
    return result(**(own | changes))


@pytest.mark.parametrize(
    ("limit_s", "expected", "said"),
    [
        (120, None, "at most 120 s once a device is free: both sides start, build and compile in"),
        (120, Expected(45, 2), "of which about 45 s until both sides have started, as the last"),
        (120, Expected(45, 2), "and 75 s for pairs"),
        (65, Expected(45, 2), "and 20 s for pairs"),
        (64, Expected(45, 2), "which is too short: about 45 s until both sides have started"),
        (64, Expected(45, 2), "10 pairs of 2.0 s for an interval. Give --time-limit 65 or more."),
        (20, Expected(45, 2), "Give --time-limit 65 or more."),
    ],
)
def test_the_whole_and_its_parts_are_said_before(
    limit_s: float, expected: Expected | None, said: str
) -> None:
    assert said in plan_text(limit_s, expected)


def test_an_earlier_comparison_of_the_same_sides_tells_how_long_it_takes() -> None:
    assert expected_of([compared()], WANTED) == Expected(setup_s=45.0, pair_s=2.0)
    assert expected_of([compared(validity=Validity.INVALID, reasons=("x",))], WANTED)


@pytest.mark.parametrize(
    "changes",
    [
        {"workload": "w1"},
        {"scenario": "offline"},
        {"stack": "ipex"},
        {"knobs": {"size": 2}},
        {"versus": PairedCandidate(stack="torch", knobs={"size": 1, "precision": "fp16"})},
        {"versus": None},
        {"pairs": ()},
        {"pairs": (Pair(a=(1.0,), b=(1.0,), a_first=True),) * 3},
        {"environment": {}},
    ],
)
def test_another_comparison_tells_nothing(changes: dict[str, object]) -> None:
    assert expected_of([compared(**changes)], WANTED) is None
