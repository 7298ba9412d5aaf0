"""The statistics of interleaved pairs: known values, invariants, and warm-up found."""

from __future__ import annotations

import math
import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from controller.contracts.pair import Pair
from controller.stats.pairs import (
    MIN_PAIRS,
    enough,
    ranks_outside,
    ratio_of_pairs,
    sessions_interval,
    signed_rank_interval,
    steady_from,
    t_quantile,
)

TIMES = st.lists(st.floats(0.01, 100), min_size=1, max_size=5)
PAIRS = st.lists(
    st.builds(lambda a, b, first: Pair(a=tuple(a), b=tuple(b), a_first=first), TIMES, TIMES,
              st.booleans()),
    min_size=1,
    max_size=30,
)  # fmt: skip


def pairs_of(ratios: list[float], base: float = 1.0) -> list[Pair]:
    """Return pairs of one sample a side."""
    return [Pair(a=(base,), b=(base * r,), a_first=n % 2 == 0) for n, r in enumerate(ratios)]


@pytest.mark.parametrize(
    ("count", "critical"),
    [(6, 0), (7, 2), (8, 3), (10, 8), (15, 25), (20, 52), (25, 89), (50, 434)],
)
def test_critical_values_of_the_signed_rank_test(count: int, critical: int) -> None:
    """Two-sided 5 %, as tables of Wilcoxon's test have them."""
    assert ranks_outside(count, 0.95) == critical


def test_the_normal_approximation_takes_over_without_a_step() -> None:
    exact, approximate = ranks_outside(50, 0.98), ranks_outside(51, 0.98)
    assert 0 < approximate - exact < 25


def test_interval_of_ten_known_values() -> None:
    """55 means of pairs; 8 lie outside at either end for 95 % (critical value of the test)."""
    values = [0.0, 1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0, 9.0]
    means = sorted((values[i] + values[j]) / 2 for i in range(10) for j in range(i, 10))
    assert signed_rank_interval(values, 0.95) == (4.5, means[8], means[46])


@given(PAIRS)
def test_interval_holds_the_ratio_and_turns_over_with_the_sides(pairs: list[Pair]) -> None:
    found = ratio_of_pairs(pairs)
    assert found.low <= found.value <= found.high
    assert found.pairs + found.warmup_pairs == len(pairs)
    assert found.bounded == (found.pairs >= MIN_PAIRS)
    swapped = ratio_of_pairs([Pair(a=p.b, b=p.a, a_first=not p.a_first) for p in pairs])
    turned = found.inverse()
    for name in ("value", "low", "high"):
        # Logarithms of doubles: a few ulps of rounding.
        assert getattr(swapped, name) == pytest.approx(getattr(turned, name), rel=1e-12)


@given(st.lists(st.floats(0.5, 2), min_size=MIN_PAIRS, max_size=25), st.floats(0.1, 10))
def test_what_both_sides_share_cancels(ratios: list[float], base: float) -> None:
    drift = [base * (1 + n / 7) for n in range(len(ratios))]
    drifting = [Pair(a=(d,), b=(d * r,), a_first=True) for d, r in zip(drift, ratios, strict=True)]
    found = ratio_of_pairs(drifting)
    still = ratio_of_pairs(pairs_of(ratios[found.warmup_pairs :]))
    if still.warmup_pairs == 0:
        assert found.value == pytest.approx(still.value, rel=1e-9)


def test_ratio_of_exact_pairs() -> None:
    found = ratio_of_pairs(pairs_of([1.25] * MIN_PAIRS))
    assert (found.value, found.low, found.high) == pytest.approx((1.25, 1.25, 1.25))
    assert (found.direction, found.warmup_pairs) == (1, 0)
    assert found.width == pytest.approx(0)


def test_too_few_pairs_give_no_interval_and_show_nothing() -> None:
    found = ratio_of_pairs(pairs_of([1.25] * (MIN_PAIRS - 1)))
    assert found.value == pytest.approx(1.25)
    assert not found.bounded
    assert found.direction == 0
    assert not enough(found, 0.5)


def test_one_wild_pair_moves_little() -> None:
    noise = random.Random(5)
    calm = [1.1 * math.exp(noise.gauss(0, 0.01)) for _ in range(24)]
    wild = ratio_of_pairs(pairs_of([*calm[:-1], 40.0]))
    assert wild.value == pytest.approx(ratio_of_pairs(pairs_of(calm)).value, rel=0.005)
    assert wild.high < 1.13


def test_without_pairs_there_is_no_ratio() -> None:
    with pytest.raises(ValueError, match="no pair"):
        ratio_of_pairs([])


@pytest.mark.parametrize(
    ("freedom", "quantile"),
    [(1, 12.706), (2, 4.303), (3, 3.182), (4, 2.776), (9, 2.262), (10, 2.228), (120, 1.980)],
)
def test_quantiles_of_t(freedom: int, quantile: float) -> None:
    """Two-sided 5 %, as tables of Student's t have them."""
    assert t_quantile(freedom, 0.95) == pytest.approx(quantile, abs=5e-4)


@pytest.mark.parametrize("confidence", [0.5, 0.9, 0.95, 0.98, 0.999])
def test_quantiles_of_t_by_their_closed_forms(confidence: float) -> None:
    """For one degree of freedom and for two; to the rounding of a dozen operations."""
    cauchy = math.tan(math.pi * confidence / 2)
    assert t_quantile(1, confidence) == pytest.approx(cauchy, rel=1e-12)
    two = confidence * math.sqrt(2 / (1 - confidence**2))
    assert t_quantile(2, confidence) == pytest.approx(two, rel=1e-12)


def sessions_of(noise: random.Random, count: int, between: float) -> list[list[float]]:
    """Return logarithms of 15 pairs a session, 1.5 % apart, around each session's own luck."""
    lucks = [noise.gauss(0, between) for _ in range(count)]
    return [[noise.gauss(luck, 0.015) for _ in range(15)] for luck in lucks]


@pytest.mark.parametrize("sessions", [2, 3, 6])
@pytest.mark.parametrize("between", [0.0, 0.01])
def test_intervals_of_several_sessions_hold_the_truth(sessions: int, between: float) -> None:
    """Taken for independent draws, the pairs of 3 sessions 1 % apart hold it 142 times of 200."""
    noise = random.Random(1)
    trials = [sessions_interval(sessions_of(noise, sessions, between)) for _ in range(200)]
    held = sum(low <= 0 <= high for _, low, high in trials)
    assert held >= 186, "95 % of 200, less 1.3 standard deviations of such a count"


def test_several_sessions_say_no_more_than_their_number_allows() -> None:
    apart = [pairs_of([1.20] * 40), pairs_of([1.25] * 40)]
    found = ratio_of_pairs(*apart)
    assert found.value == pytest.approx(math.sqrt(1.20 * 1.25))
    assert found.low < 1 < found.high, "two draws that differ by 4 % show little"
    assert (found.pairs, found.steady) == (80, True)
    assert ratio_of_pairs(*apart, *apart, *apart).direction == 1


def test_sessions_that_agree_are_no_surer_than_their_pairs() -> None:
    pairs = pairs_of([1.2, 1.21, 1.19, 1.22, 1.18, 1.2, 1.23, 1.17, 1.21, 1.19, 1.2, 1.2])
    alone, twice = ratio_of_pairs(pairs), ratio_of_pairs(pairs, pairs)
    assert twice.value == pytest.approx(alone.value)
    assert 0.3 < twice.width / alone.width < 1
    few = pairs[: MIN_PAIRS // 2 - 1]
    assert not ratio_of_pairs(few, few).bounded


@pytest.mark.parametrize("warm", [1, 3, 5])
def test_warm_up_is_found(warm: int) -> None:
    noise = random.Random(3)
    levels = [noise.gauss(0, 0.01) for _ in range(20)]
    slow = [level + (0.5 if n < warm else 0) for n, level in enumerate(levels)]
    assert warm <= steady_from(slow) <= warm + 2, "all of it, and little more"


def test_warm_up_of_one_side_is_left_out_of_the_ratio() -> None:
    noise = random.Random(4)
    ratios = [(3.0 if n < 4 else 1.2) * math.exp(noise.gauss(0, 0.005)) for n in range(24)]
    found = ratio_of_pairs(pairs_of(ratios))
    assert found.warmup_pairs == 4
    assert found.low < 1.2 < found.high


def test_a_level_that_never_settles_is_not_steady() -> None:
    falling = [Pair(a=(2.0**-n,), b=(2.0**-n,), a_first=True) for n in range(24)]
    found = ratio_of_pairs(falling)
    assert not found.steady
    assert found.width == 0
    assert not enough(found, 0.5), "narrow, and yet the end of a warm-up was not seen"


def test_constant_levels_are_steady_from_the_start() -> None:
    assert steady_from([1.0] * 20) == 0
    assert steady_from([5.0]) == 0
