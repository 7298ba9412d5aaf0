from __future__ import annotations

import math
from collections.abc import Sequence
from random import Random

import pytest

from controller.stats.medians import MedianOfRuns, median_of_runs, ratio_of_medians


def factor(values: Sequence[float]) -> float | None:
    """Return the factor of runs with one value each."""
    return median_of_runs([(value,) for value in values]).factor


def test_the_median_is_of_all_samples() -> None:
    assert median_of_runs([(1.0, 2.0), (9.0,)]).median == 2.0


@pytest.mark.parametrize(
    "runs",
    [
        [(1.0,)],
        [(1.0, 1.1, 1.2)],
        [(0.0,), (1.0,)],
        [(-1.0,), (1.0,)],
        [(0.0, 1.0), (1.0, 1.0)],
        [(1e-300,), (1e300,)],  # wider than a double can say
        [(1e-300, 1e-300), (1e300, 1e300)],
    ],
)
def test_there_is_no_interval(runs: list[tuple[float, ...]]) -> None:
    found = median_of_runs(runs)
    assert (found.factor, found.interval) == (None, None)
    assert ratio_of_medians(runs, [(1.0,), (1.0,)]).interval is None


def test_runs_of_one_value_have_students_t_of_the_logarithms() -> None:
    """t with 2 degrees of freedom at 95 % is 4.30265."""
    step = math.log(2.0)
    assert factor((1.0, 4.0, 2.0)) == pytest.approx(math.exp(4.302653 * step / 3**0.5))


def test_it_holds_the_whole_interval_and_the_median_is_its_centre() -> None:
    assert factor((1.0, 1.0, 1.0)) == 1.0
    reach = 4.302653 * math.log(8.0) / 3**0.5 / 3**0.5
    assert factor((1.0, 1.0, 8.0)) == pytest.approx(math.exp(reach + math.log(2.0)))


def test_the_interval_lies_around_the_median_by_its_factor() -> None:
    assert MedianOfRuns(3.0, 1.5).interval == (2.0, 4.5)
    assert MedianOfRuns(3.0, None).interval is None


def test_the_same_runs_have_the_same_interval() -> None:
    runs = [(0.25, 0.27, 0.26), (0.26, 0.24, 0.25)]
    assert median_of_runs(runs) == median_of_runs(runs)


@pytest.mark.parametrize("raw", [1, 3])
def test_it_does_not_depend_on_the_unit(raw: int) -> None:
    seconds = [(0.25, 0.27, 0.3)[:raw], (0.26, 0.26, 0.2)[:raw], (0.24, 0.25, 0.26)[:raw]]
    in_ms = median_of_runs([[1000 * s for s in run] for run in seconds])
    assert median_of_runs(seconds).factor == pytest.approx(in_ms.factor)


@pytest.mark.parametrize("count", [2, 3, 5])
def test_it_covers_the_truth_as_often_as_it_says(count: int) -> None:
    numbers = Random(7)
    covered = 0
    for _ in range(1000):
        found = median_of_runs([(numbers.lognormvariate(0.0, 0.05),) for _ in range(count)])
        assert found.interval
        covered += found.interval[0] <= 1.0 <= found.interval[1]
    assert covered >= 940


@pytest.mark.parametrize("within", [0.003, 0.03])
@pytest.mark.parametrize("runs", [2, 3, 5])
def test_intervals_of_runs_with_samples_hold_the_truth(runs: int, within: float) -> None:
    """Runs that differ by 2 % as a whole, and steps within them: 93 % of intervals hold 1."""
    numbers = Random(runs)
    held = 0
    for _ in range(1000):
        levels = [numbers.gauss(0, 0.02) for _ in range(runs)]
        drawn = [
            [math.exp(level + numbers.gauss(0, within)) for _ in range(10)] for level in levels
        ]
        interval = median_of_runs(drawn).interval
        assert interval
        held += interval[0] <= 1 <= interval[1]
    assert held >= 930  # three standard errors below 95 %
