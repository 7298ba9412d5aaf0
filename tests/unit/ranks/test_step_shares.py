"""Where the time of a step of several ranks goes, from what each rank tells."""

from __future__ import annotations

import pytest

from agents.ranks.protocol import RankFigures
from agents.ranks.step_shares import StepShares


def figures(computed_s: float, exchanged_s: float, update_s: float) -> RankFigures:
    seconds = computed_s + exchanged_s + update_s
    return RankFigures(loss=1.0, seconds=seconds, computed_s=computed_s, exchanged_s=exchanged_s)


@pytest.mark.parametrize(
    ("first", "other", "exchange", "imbalance", "own"),
    [
        pytest.param((0.4, 0.5, 0.1), (0.8, 0.1, 0.1), 0.1, 0.4, 0.5, id="slower gradients"),
        pytest.param((0.4, 0.1, 0.1), (0.4, 0.1, 0.5), 0.1, 0.4, 0.5, id="a slower update"),
        pytest.param((0.4, 0.5, 0.1), (0.4, 0.1, 0.1), 0.1, 0.4, 0.5, id="a late start"),
        pytest.param((0.8, 0.1, 0.1), (0.4, 0.5, 0.1), 0.1, 0.0, 0.9, id="the first is slowest"),
    ],
)
def test_the_first_rank_s_waits_are_no_work_of_its_own(
    first: tuple[float, float, float],
    other: tuple[float, float, float],
    exchange: float,
    imbalance: float,
    own: float,
) -> None:
    shares = StepShares(untimed=0)
    shares.add([figures(*first), figures(*other)])
    found = (shares.exchange, shares.imbalance, shares.own)
    assert found == pytest.approx((exchange, imbalance, own))
