"""Medians, spreads and ratios with their intervals. Pure."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import fmean, median, quantiles, stdev

from controller.stats.pairs import CONFIDENCE, t_quantile

LARGEST_EXPONENT = 350.0
"""exp() of twice as much is no double."""

Runs = Sequence[Sequence[float]]
"""Raw samples, one sequence a run."""


@dataclass(frozen=True, slots=True)
class Spread:
    """A median with the quartiles of the samples around it."""

    median: float
    low: float
    high: float


@dataclass(frozen=True, slots=True)
class Ratio:
    """A ratio with its 95 % interval, if there are enough samples for one."""

    value: float
    interval: tuple[float, float] | None

    @property
    def shown(self) -> bool:
        """Whether the interval excludes 1, so that a difference is shown."""
        return self.interval is not None and not self.interval[0] <= 1.0 <= self.interval[1]


def spread(runs: Runs) -> Spread:
    """Return median and quartiles over all samples; raises StatisticsError without any."""
    samples = [sample for run in runs for sample in run]
    if len(samples) == 1:
        return Spread(samples[0], samples[0], samples[0])
    low, middle, high = quantiles(samples, n=4, method="inclusive")
    return Spread(middle, low, high)


@dataclass(frozen=True, slots=True)
class MedianOfRuns:
    """The median of a cell's runs on a device, and how well it is known."""

    median: float
    factor: float | None
    """f of the 95 % interval [median / f, median * f]; None if there is no such interval."""

    @property
    def interval(self) -> tuple[float, float] | None:
        """The ends of the 95 % interval."""
        return _around(self.median, self.factor)


def median_of_runs(runs: Runs) -> MedianOfRuns:
    """Return the median over all samples of the runs, with its interval.

    Tables, reports, exports and Prometheus have the figure of a cell from this function. A single
    run shows nothing about differences between runs, and a value that is not positive has no
    logarithm: then there is no interval. Raises StatisticsError without samples.
    """
    samples = [sample for run in runs for sample in run]
    middle = median(samples)
    if len(runs) < 2 or min(samples) <= 0:
        return MedianOfRuns(middle, None)
    reach = _reach([median(run) for run in runs], middle)
    return MedianOfRuns(middle, math.exp(reach) if reach < LARGEST_EXPONENT else None)


def ratio(over: MedianOfRuns, under: MedianOfRuns) -> Ratio:
    """Return the ratio of two medians with a 95 % interval, if both have one.

    The two sides were measured apart, so the squares of their half-widths add up, as logarithms
    (MOVER: Zou & Donner 2008); Prometheus's recording rules do the same.
    """
    value = over.median / under.median
    if over.factor is None or under.factor is None:
        return Ratio(value, None)
    reach = math.hypot(math.log(over.factor), math.log(under.factor))
    return Ratio(value, _around(value, math.exp(reach)))


def ratio_of_medians(over: Runs, under: Runs) -> Ratio:
    """Return median(over) / median(under) with a 95 % interval, see `ratio`."""
    return ratio(median_of_runs(over), median_of_runs(under))


def _around(middle: float, factor: float | None) -> tuple[float, float] | None:
    return None if factor is None else (middle / factor, middle * factor)


def _reach(values: Sequence[float], middle: float) -> float:
    """Return half the interval's width, as a logarithm, from each run's median.

    It is Student's t interval of the mean of their logarithms, widened to be centred at the median.
    Samples of a run share what makes it differ from others, so they count once: intervals from
    resampled runs and samples hold the truth too seldom, of two runs in two cases of three.
    """
    logs = [math.log(value) for value in values]
    reach = t_quantile(len(logs) - 1, CONFIDENCE) * stdev(logs) / math.sqrt(len(logs))
    return reach + abs(math.log(middle) - fmean(logs))
