"""A power law against hand-made points, and its interval against draws."""

from __future__ import annotations

import math
import random

import pytest

from controller.stats.power_law import power_law

PUBLISHED = [(256.0, 4.0), (512.0, 5.0), (4096.0, 15.0)]


def test_points_of_a_law_give_it_back_without_doubt() -> None:
    law = power_law([(x, 3 * x**0.5) for x in (1.0, 4.0, 9.0, 100.0)])
    assert (law.factor, law.exponent) == pytest.approx((3, 0.5))
    at = law.at(25)
    assert at.value == pytest.approx(15)
    assert at.factor == pytest.approx(1, abs=1e-6)
    assert law.exponent_error == pytest.approx(0, abs=1e-6)
    assert power_law(PUBLISHED[:2]).exponent_error is None


def test_the_published_points_leave_a_factor_of_four_or_so() -> None:
    law = power_law(PUBLISHED)
    # By hand: slope of ln epochs over ln batch, and its intercept.
    assert law.exponent == pytest.approx(0.489, abs=5e-4)
    assert law.factor == pytest.approx(0.253, abs=5e-4)
    assert law.spread == pytest.approx(0.084, abs=5e-4)
    assert law.exponent_error == pytest.approx(0.524, abs=1e-3)  # 12.7 × 0.084 / √4.16
    at = law.at(256)
    assert at.value == pytest.approx(3.80, abs=0.01)
    assert at.factor is not None
    assert 3 < at.factor < 5  # one degree of freedom: t is 12.7


def test_it_widens_away_from_the_points() -> None:
    law = power_law(PUBLISHED)
    near, far, beyond = (law.at(x).factor or math.inf for x in (1024, 64, 2))
    assert near < far < beyond


@pytest.mark.parametrize("count", [3, 6])
def test_a_new_point_is_inside_as_often_as_the_interval_says(count: int) -> None:
    rng = random.Random(7)
    draws, inside = 4000, 0
    xs = [2.0**place for place in range(count)]
    for _ in range(draws):
        law = power_law([(x, 2 * x**0.4 * math.exp(rng.gauss(0, 0.1))) for x in xs])
        seen = 2 * 3.0**0.4 * math.exp(rng.gauss(0, 0.1))
        at = law.at(3.0)
        assert at.factor is not None
        inside += at.value / at.factor <= seen <= at.value * at.factor
    # Four standard deviations of the share of 4,000 draws.
    assert inside / draws == pytest.approx(0.95, abs=4 * math.sqrt(0.95 * 0.05 / draws))


def test_two_points_have_no_interval_and_one_place_no_law() -> None:
    assert power_law([(1, 1), (2, 2)]).at(8).factor is None
    with pytest.raises(ValueError, match="two places"):
        power_law([(2, 1), (2, 3)])


def test_an_interval_beyond_all_numbers_is_none() -> None:
    assert power_law([(1, 1e-300), (1.1, 1e300), (1.2, 1e-300)]).at(9).factor is None
