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
