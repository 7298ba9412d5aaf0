from __future__ import annotations

import math
import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from controller.stats.medians import Ratio, ratio_of_medians, spread

SAMPLES = st.lists(st.floats(0.01, 100), min_size=1, max_size=12)
RUNS = st.lists(SAMPLES, min_size=1, max_size=4)


@given(RUNS)
def test_quartiles_enclose_the_median(runs: list[list[float]]) -> None:
    found = spread(runs)
    assert found.low <= found.median <= found.high


def test_known_spread() -> None:
    found = spread([[1.0, 2.0], [3.0, 4.0, 5.0]])
    assert (found.low, found.median, found.high) == (2.0, 3.0, 4.0)


@given(RUNS, RUNS)
def test_interval_is_ordered_and_repeatable(
    over: list[list[float]], under: list[list[float]]
) -> None:
    first, second = ratio_of_medians(over, under), ratio_of_medians(over, under)
    assert first == second
    if first.interval is None:
        assert min(len(over), len(under)) == 1
    else:
        assert 0 < first.interval[0] <= first.interval[1]


def test_ratio_of_constant_samples_is_exact() -> None:
    found = ratio_of_medians([[3.0] * 4, [3.0] * 4], [[2.0] * 4] * 2)
    assert found == Ratio(1.5, (1.5, 1.5))
    assert found.shown


def test_equal_samples_show_no_difference() -> None:
    noise = random.Random(1)
    runs = [[1 + noise.gauss(0, 0.05) for _ in range(10)] for _ in range(3)]
    assert not ratio_of_medians(runs, runs).shown


def test_a_run_that_is_off_as_a_whole_widens_the_interval() -> None:
    steady = [[1.0, 1.01, 0.99], [1.0, 1.01, 0.99], [1.0, 1.01, 0.99]]
    shifted = [[1.0, 1.01, 0.99], [1.0, 1.01, 0.99], [1.5, 1.51, 1.49]]
    calm = ratio_of_medians(steady, steady).interval
    rough = ratio_of_medians(shifted, steady).interval
    assert calm
    assert rough
    assert rough[1] - rough[0] > 5 * (calm[1] - calm[0])
    assert rough[0] < 1 / 1.5
    assert rough[1] > 1.5


def test_one_run_has_no_interval_however_many_its_samples() -> None:
    found = ratio_of_medians([[3.0] * 50], [[2.0, 2.0], [2.0, 2.0]])
    assert found == Ratio(1.5, None)
    assert not found.shown


@pytest.mark.parametrize("within", [0.003, 0.03])
@pytest.mark.parametrize("runs", [2, 3, 5])
def test_intervals_of_separate_runs_hold_the_truth(runs: int, within: float) -> None:
    """Runs that differ by 2 % as a whole, and steps within them: 93 % of intervals hold 1."""
    generator = random.Random(runs)

    def side() -> list[list[float]]:
        levels = [generator.gauss(0, 0.02) for _ in range(runs)]
        return [
            [math.exp(level + generator.gauss(0, within)) for _ in range(10)] for level in levels
        ]

    intervals = [ratio_of_medians(side(), side()).interval for _ in range(1000)]
    assert sum(low <= 1 <= high for low, high in filter(None, intervals)) >= 930
