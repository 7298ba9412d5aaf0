"""The median of repeated calls, and how well it is known. Pure."""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import lru_cache
from statistics import median

from controller.stats.pairs import CONFIDENCE


def median_interval(samples: Sequence[float]) -> tuple[float, float, float]:
    """Return the median and its 95 % interval: middle, low, high; the extremes of few samples.

    The interval lies between order statistics, which asks nothing of how samples are distributed.
    """
    ordered = sorted(samples)
    outside = samples_outside(len(ordered))
    return median(ordered), ordered[outside], ordered[-1 - outside]


def is_known(samples: Sequence[float], width: float) -> bool:
    """Whether the interval is narrower than a share of the median."""
    middle, low, high = median_interval(samples)
    return high - low <= width * middle


@lru_cache(maxsize=1024)
def samples_outside(count: int) -> int:
    """Return how many of `count` samples lie outside the median's 95 % interval, at either end.

    How many samples lie below the true median is binomial (David & Nagaraja 2003, 7.1): this is
    the greatest k for which k or fewer do so with a probability of at most 2.5 %, or 0.
    """
    from scipy.special import bdtrik  # takes 0.5 s, which an agent would spend at its start

    fewest = float(bdtrik((1 - CONFIDENCE) / 2, count, 0.5))
    return max(0, math.ceil(fewest) - 1)


def numbers_below(count: int, share: float, chance: float) -> tuple[int, int]:
    """Return the least and the greatest likely number of `count` samples below a quantile.

    chance: that there are fewer, and that there are more.
    """
    from scipy.special import bdtrik  # see samples_outside

    fewest, most = (float(bdtrik(tail, count, share)) for tail in (chance, 1 - chance))
    return math.ceil(fewest), math.ceil(most)


def quantile_bounds(
    samples: Sequence[float], share: float, chance: float
) -> tuple[float, float, float]:
    """Return a quantile and the samples between which it lies: middle, low, high.

    chance: that it lies beyond one of the bounds; an end that so few samples can't bound is 0 or
    infinite. Bounds are order statistics, as those of `median_interval`. Raises ValueError without
    samples.
    """
    from scipy.special import bdtrik  # see samples_outside

    if not samples:
        raise ValueError("there is no sample to take a quantile of")
    ordered, count = sorted(samples), len(samples)
    middle = ordered[min(count - 1, math.ceil(share * count) - 1)]
    below = math.floor(float(bdtrik(chance, count, share)))
    above = math.ceil(float(bdtrik(1 - chance, count, share)))
    low = ordered[below] if below >= 0 and (1 - share) ** count <= chance else 0.0
    high = ordered[above] if above < count and share**count <= chance else math.inf
    return middle, low, high
