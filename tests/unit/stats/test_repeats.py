from __future__ import annotations

import math
from random import Random

import pytest

from controller.stats.repeats import interval_factor


@pytest.mark.parametrize(
    "repeats",
    [
        (),
        (1.0,),
        (0.0, 1.0),
        (-1.0, 1.0),
        (1e-300, 1e300),  # wider than a double can say
    ],
)
def test_there_is_no_interval(repeats: tuple[float, ...]) -> None:
    assert interval_factor(repeats) is None


def test_it_is_students_t_of_the_logarithms() -> None:
    """t with 2 degrees of freedom at 95 % is 4.30265."""
    step = math.log(2.0)
    assert interval_factor((1.0, 4.0, 2.0)) == pytest.approx(math.exp(4.302653 * step / 3**0.5))


def test_it_holds_the_whole_interval_and_the_newest_is_its_centre() -> None:
    assert interval_factor((1.0, 1.0, 1.0)) == 1.0
    centred, newest_low = interval_factor((1.0, 4.0, 2.0)), interval_factor((2.0, 4.0, 1.0))
    assert centred
    assert newest_low == pytest.approx(2.0 * centred)


def test_it_does_not_depend_on_the_unit() -> None:
    seconds = (0.25, 0.26, 0.24)
    assert interval_factor(seconds) == pytest.approx(interval_factor([1000 * s for s in seconds]))


@pytest.mark.parametrize("count", [2, 3, 5])
def test_it_covers_the_truth_as_often_as_it_says(count: int) -> None:
    numbers = Random(7)
    covered = 0
    for _ in range(1000):
        repeats = [numbers.lognormvariate(0.0, 0.05) for _ in range(count)]
        factor = interval_factor(repeats)
        assert factor
        covered += repeats[-1] / factor <= 1.0 <= repeats[-1] * factor
    assert covered >= 940
