from __future__ import annotations

from agents.inference.runner.pace import WINDOW, Pace
from tests.support.builders import FakeClock


def test_pace_is_that_of_the_last_seconds() -> None:
    clock = FakeClock(0.0)
    pace = Pace(clock)
    done, paces = 0, []
    for rate in (10, 10, *(40 for _ in range(WINDOW))):
        clock.now += 1
        done += rate
        paces.append(pace.after(done))
    assert paces == [10, 10, 20, 25, 28, 34, 40]


def test_a_slow_model_has_a_steady_pace() -> None:
    clock = FakeClock(0.0)
    pace = Pace(clock)
    seen = []
    for second in range(1, 13):
        clock.now = float(second)
        seen.append(pace.after(second // 2))
    assert min(seen[WINDOW:]) > 0
    assert max(seen[WINDOW:]) < 1
