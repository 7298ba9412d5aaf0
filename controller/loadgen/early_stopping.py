"""LoadGen's early stopping, worked out again: how much a run of a given length shows. Pure.

A run shows that a share `percentile` of all queries is fast enough with 99 % confidence if so few
slow ones would be seen by chance in at most 1 % of such runs: P(Binomial(queries, 1 - percentile)
<= slow) < 0.01 (MLPerf Inference rules, "early stopping"; LoadGen from 2.0 on, tolerance 0).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Final

CHANCE: Final = 0.01
MOST_QUERIES: Final = 10**8
"""Of more, nothing is worked out: no run has as many."""
_NEGLIGIBLE: Final = 1e-18


@dataclass(frozen=True, slots=True)
class Estimate:
    """What a run of single_stream or multi_stream can say of a percentile."""

    least: int
    """Queries from which there is an estimate."""
    discarded: int | None
    """Highest latencies that are discarded; the next lower one is the estimate. None: too few."""


def estimate(queries: int, percentile: float) -> Estimate:
    """Return what a run of `queries` says of a percentile, a share between 0 and 1."""
    least = queries_needed(1, percentile)
    if queries < least:
        return Estimate(least, None)
    low, high = 1, queries  # `low` slow ones are few enough
    while high - low > 1:
        middle = (low + high) // 2
        if _at_most(middle, queries, 1 - percentile) < CHANCE:
            low = middle
        else:
            high = middle
    return Estimate(least, low - 1)


def queries_needed(slow: int, percentile: float) -> int:
    """Return the fewest queries of which so many may be slow."""
    low, high = slow, max(2 * slow, 1)
    while _at_most(slow, high, 1 - percentile) >= CHANCE:
        low, high = high, 2 * high
    while high - low > 1:
        middle = (low + high) // 2
        if _at_most(slow, middle, 1 - percentile) < CHANCE:
            high = middle
        else:
            low = middle
    return high


def _at_most(count: int, tries: int, chance: float) -> float:
    """Return the probability of at most `count` hits, by summing from the highest one down."""
    if count >= tries:
        return 1.0
    logarithm = (
        math.lgamma(tries + 1) - math.lgamma(count + 1) - math.lgamma(tries - count + 1)
    ) + (count * math.log(chance) + (tries - count) * math.log1p(-chance))
    if count > tries * chance + 10 * math.sqrt(tries * chance) + 10:
        return 1.0  # far above the mean, where summing would take long
    term = total = math.exp(logarithm)
    if not term:
        return 0.0  # far below the mean
    for hits in range(count, 0, -1):
        term *= hits * (1 - chance) / ((tries - hits + 1) * chance)
        total += term
        if term < _NEGLIGIBLE * total and hits < tries * chance:
            break
    return min(1.0, total)
