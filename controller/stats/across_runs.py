"""Ratios from one or more runs, with 95 % intervals of what is within and between runs. Pure."""

from __future__ import annotations

import math
from collections.abc import Sequence
from statistics import fmean, median, stdev
from typing import Final

from controller.stats.order_statistics import median_interval
from controller.stats.pairs import CONFIDENCE, t_quantile

Interval = tuple[float, float, float]
"""Middle, low and high of a ratio; 0 and infinite where nothing bounds it."""
UNKNOWN: Final[Interval] = (1.0, 0.0, math.inf)
LARGEST_EXPONENT: Final = 700.0
"""exp() of more is no double."""
_Z: Final = 1.959964
"""Of 95 %, two-sided."""


def median_ratio(logs: Sequence[Sequence[float]]) -> Interval:
    """Return the median ratio of one or more runs, from logarithms of ratios within each.

    Runs count as in `pairs.sessions_interval`: each is one draw, and the interval is never narrower
    than that of all ratios together.
    """
    together = [log for of_run in logs for log in of_run]
    if not together:
        return UNKNOWN
    middle, low, high = median_interval(together)
    centres = [median(of_run) for of_run in logs if of_run]
    if len(centres) > 1:
        middle, reach = fmean(centres), _reach(centres)
        low, high = min(low, middle - reach), max(high, middle + reach)
    return _exp(middle, low, high)


def combined(several: Sequence[Interval]) -> Interval:
    """Return the ratio of one or more runs that each have an interval."""
    if len(several) == 1:
        return several[0]
    if any(not low or math.isinf(high) for _, low, high in several):
        return between([value for value, _, _ in several])
    centres = [math.log(value) for value, _, _ in several]
    halves = [math.log(high / low) / 2 for _, low, high in several]
    middle, reach = fmean(centres), max(_reach(centres), math.hypot(*halves) / len(halves))
    return _exp(middle, middle - reach, middle + reach)


def between(ratios: Sequence[float]) -> Interval:
    """Return the mean of several runs' ratios with Student's interval; of one, without bounds."""
    logs = [math.log(ratio) for ratio in ratios]
    middle, reach = fmean(logs), _reach(logs) if len(logs) > 1 else math.inf
    return _exp(middle, middle - reach, middle + reach)


def share_interval(share: float, count: int) -> Interval:
    """Return a share of `count` and its interval (Wilson 1927); without any, the share alone.

    A mean of values between 0 and 1 varies at most as a share of the same size.
    """
    if not count:
        return share, share, share
    each = _Z**2 / count
    centre = (share + each / 2) / (1 + each)
    spread = share * (1 - share) / count + each / (4 * count)
    reach = _Z * math.sqrt(max(0.0, spread)) / (1 + each)
    return share, max(0.0, centre - reach), min(1.0, centre + reach)


def _reach(centres: Sequence[float]) -> float:
    freedom = len(centres) - 1
    return t_quantile(freedom, CONFIDENCE) * stdev(centres) / math.sqrt(len(centres))


def _exp(middle: float, low: float, high: float) -> Interval:
    ends = math.exp(low) if low > -LARGEST_EXPONENT else 0.0, high < LARGEST_EXPONENT
    return math.exp(middle), ends[0], math.exp(high) if ends[1] else math.inf
