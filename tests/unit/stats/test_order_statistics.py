"""The median and its interval: known ranks, and what they promise."""

from __future__ import annotations

import math

import pytest

from controller.stats.order_statistics import is_known, median_interval, samples_outside


@pytest.mark.parametrize(
    ("count", "rank"),
    [(6, 1), (8, 1), (9, 2), (10, 2), (15, 4), (20, 6), (25, 8), (30, 10), (50, 18), (100, 40)],
)
def test_ranks_of_the_interval(count: int, rank: int) -> None:
    """Of the samples at its ends, from either side, as tables of the sign test have them."""
    assert samples_outside(count) + 1 == rank


@pytest.mark.parametrize("count", [6, 7, 11, 12, 63, 64, 399, 400, 1000])
def test_no_rank_further_in_would_do(count: int) -> None:
    """In whole numbers: so many of 2^count outcomes of the coins have k or fewer below."""
    at_most = samples_outside(count)
    outcomes = sum(math.comb(count, k) for k in range(at_most + 1))
    assert 40 * outcomes <= 2**count < 40 * (outcomes + math.comb(count, at_most + 1))


@pytest.mark.parametrize("count", [1, 2, 5])
def test_few_samples_have_the_extremes(count: int) -> None:
    samples = [float(n) for n in range(count)]
    assert median_interval(samples) == ((count - 1) / 2, 0.0, count - 1)


def test_interval_of_ten_known_values_is_symmetric() -> None:
    assert median_interval([3.0, 9, 1, 5, 7, 2, 8, 4, 6, 0]) == (4.5, 1.0, 8.0)


def test_a_median_is_known_when_its_interval_is_narrow() -> None:
    assert is_known([5.0, 0.2, *[1.0] * 8], 0.0), "one wild sample at either end lies outside"
    assert not is_known([5.0, 5.0, 0.2, *[1.0] * 7], 0.05), "two at one end do not"
    assert is_known([0.98, 1.0, 1.02], 0.05)
    assert not is_known([0.97, 1.0, 1.03], 0.05)
