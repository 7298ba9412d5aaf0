"""The interval of a value that was measured several times, from how much they differ. Pure."""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import lru_cache
from statistics import fmean, stdev

from controller.stats.pairs import CONFIDENCE, t_quantile

LARGEST_EXPONENT = 700.0
"""exp() of more is no double."""


def interval_factor(repeats: Sequence[float]) -> float | None:
    """Return the factor f of the 95 % interval [newest / f, newest * f] of a positive value.

    repeats: values of single runs, the newest last. It is Student's t interval of the mean of
    their logarithms, widened to be centred at the newest. None if there is no such interval: one
    run tells nothing of how much runs differ.
    """
    return _factor(tuple(repeats))


@lru_cache(maxsize=2**15)  # a scrape asks for the same again
def _factor(repeats: tuple[float, ...]) -> float | None:
    if len(repeats) < 2 or min(repeats) <= 0:
        return None
    logs = [math.log(value) for value in repeats]
    reach = t_quantile(len(logs) - 1, CONFIDENCE) * stdev(logs) / math.sqrt(len(logs))
    exponent = reach + abs(logs[-1] - fmean(logs))
    return math.exp(exponent) if exponent < LARGEST_EXPONENT else None
