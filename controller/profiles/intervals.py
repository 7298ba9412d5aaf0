"""Median of repeated calls, with its interval."""

from __future__ import annotations

import math
from collections.abc import Sequence
from statistics import median


def median_interval(samples: Sequence[float]) -> tuple[float, float, float]:
    """Return the median and its 95 % interval by order statistics; for few samples, the
    extremes."""
    ordered = sorted(samples)
    count = len(ordered)
    reach = 1.96 * math.sqrt(count) / 2
    low = max(0, math.floor(count / 2 - reach))
    high = min(count - 1, math.ceil(count / 2 + reach))
    return median(ordered), ordered[low], ordered[high]


def is_known(samples: Sequence[float], width: float) -> bool:
    """Return whether the interval is narrower than the given fraction of the median."""
    middle, low, high = median_interval(samples)
    return high - low <= width * middle
