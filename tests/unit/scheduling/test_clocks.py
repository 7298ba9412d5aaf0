from __future__ import annotations

import pytest

from controller.scheduling.clocks import STEP_S, WIDE_S, Clocks, by_our_clock, moved


def test_a_clock_is_told_from_the_answer_before_and_the_question_after_it() -> None:
    clocks = Clocks()
    assert clocks.heard("host", 4600.0, 1000.0, 0.0) is None, "nobody knows when that was read"
    clocks.answered("host", 0.0)
    assert clocks.heard("other", 4600.0, 1000.0, 0.0) is None
    assert clocks.heard("host", 4600.25, 1000.5, 0.5) == 3600.0
    clocks.answered("host", 3.5)
    assert clocks.heard("host", 1003.0, 1003.5, 3.5) == -0.5, "it has been set meanwhile"
    assert clocks.heard("host", 1003.75, 4604.0, 4.0) == -3600.0, "so has ours"


def test_what_tells_nothing_of_a_clock_is_left_out() -> None:
    clocks = Clocks()
    clocks.answered("host", 0.0)
    late = WIDE_S + 0.1
    assert clocks.heard("host", 1.0, 1000.0 + late, late) is None, "it was long on its way"
    assert clocks.heard("host", 2.0, 1000.0, 0.0) == -998.0
    clocks.answered("host", 3.0)
    assert clocks.heard("host", 2.0, 1003.0, 3.0) is None, "it is the same question"


@pytest.mark.parametrize(
    ("said", "ahead_s", "ours"),
    [
        (1005.0, None, 1005.0),
        (4605.0, 3600.0, 1005.0),
        (-2595.0, -3600.0, 1005.0),
        (4605.0, None, 1010.0),
        (4605.0, -3600.0, 1010.0),
        (1005.0, 3600.0, 1000.0),
    ],
)
def test_a_time_stays_between_what_it_must_lie_between(
    said: float, ahead_s: float | None, ours: float
) -> None:
    assert by_our_clock(said, ahead_s, earliest=1000.0, latest=1010.0) == ours


def test_only_a_step_is_news() -> None:
    assert moved(None, 0.0)
    assert moved(1.0, 1.0 + STEP_S)
    assert not moved(1.0, 1.1)
