"""What the kill matrix takes for a violation, and what it prints."""

from __future__ import annotations

import pytest

from controller.contracts.run import AttemptState, RunState
from tests.support.builders import attempt, run
from tests.support.kill_matrix import Kill, table, violations_of

LEASED, LOST, SUCCEEDED = AttemptState.LEASED, AttemptState.LOST, AttemptState.SUCCEEDED
FAILED = AttemptState.FAILED
PLANTED = {
    "sound": (RunState.DONE, [(1, LOST), (2, FAILED), (3, SUCCEEDED)], 1, 0),
    "lost result": (RunState.DONE, [(1, SUCCEEDED)], 0, 1),
    "doubled result": (RunState.DONE, [(1, SUCCEEDED)], 2, 1),
    "measured twice": (RunState.DONE, [(1, SUCCEEDED), (2, SUCCEEDED)], 1, 1),
    "given up": (RunState.FAILED, [(1, FAILED)], 0, 2),
    "never done": (RunState.DONE, [(1, LOST)], 1, 1),
    "a lease left over": (RunState.DONE, [(1, SUCCEEDED), (2, LEASED)], 1, 1),
    "an attempt left out": (RunState.DONE, [(1, LOST), (3, SUCCEEDED)], 1, 1),
    "an attempt twice": (RunState.DONE, [(1, LOST), (1, SUCCEEDED)], 1, 1),
}


@pytest.mark.parametrize(
    ("state", "attempts", "counted", "violations"), PLANTED.values(), ids=PLANTED
)
def test_planted_violations(
    state: RunState, attempts: list[tuple[int, AttemptState]], counted: int, violations: int
) -> None:
    tried = tuple(attempt("cpu-1", number, ended) for number, ended in attempts)
    ended = run().model_copy(update={"state": state, "attempts": tried})
    assert len(list(violations_of(ended, counted))) == violations


def test_a_kind_that_was_not_there_is_no_kill_that_passed() -> None:
    kills = [
        Kill("raylet", "idle", 20.0),
        Kill("raylet", "idle", 10.0),
        Kill("worker", "idle", None),
        Kill("worker", "measuring", 1.25, ("run-1 is failed",)),
    ]
    lines = list(table(kills))
    assert lines[1].split() == ["raylet", "15.0/20.0", *"––––"]
    assert lines[2].split() == ["worker", "–", "–", "1.2/1.2", "–", "–"]
    assert lines[3] == "3 kills, at the longest 20.0 s, 1 violations"
    assert lines[4:] == ["worker, measuring: run-1 is failed"]
