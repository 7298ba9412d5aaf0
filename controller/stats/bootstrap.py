"""Medians, spreads and ratios with their intervals. Pure; the bootstrap is seeded."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import fmean, median, quantiles, stdev

import numpy as np
from numpy.typing import NDArray

from controller.stats.pairs import CONFIDENCE, t_quantile

RESAMPLES = 2000
SEED = 0
"""Of resampling: the same runs give the same interval everywhere."""
LARGEST_EXPONENT = 350.0
"""exp() of twice as much is no double."""
_DRAWS_AT_ONCE = 2_000_000
"""Samples drawn at once: bounds memory to about 50 MB for any number of samples."""

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
    reach = _t_reach(samples, middle) if len(samples) == len(runs) else _drawn_reach(runs, middle)
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


def _t_reach(values: Sequence[float], middle: float) -> float:
    """Return half the interval's width, as a logarithm, for runs of one value each.

    It is Student's t interval of the mean of their logarithms, widened to be centred at the median:
    so few values say too little to be resampled.
    """
    logs = [math.log(value) for value in values]
    reach = t_quantile(len(logs) - 1, CONFIDENCE) * stdev(logs) / math.sqrt(len(logs))
    return reach + abs(math.log(middle) - fmean(logs))


def _drawn_reach(runs: Runs, middle: float) -> float:
    """Return half the interval's width, as a logarithm, for runs with raw samples.

    It is the symmetric bootstrap interval (Hall 1988). Runs are resampled, then samples within
    each, so that an outlying run widens it. Each resample has one run fewer than the data
    (McCarthy & Snowden 1985); with as many, intervals would be too narrow, for two runs by a third.
    """
    drawn = _resampled_medians(runs, np.random.default_rng(SEED))
    away = np.sort(np.abs(np.log(drawn) - math.log(middle)))
    return float(away[math.ceil(CONFIDENCE * len(away)) - 1])


def _resampled_medians(runs: Runs, generator: np.random.Generator) -> NDArray[np.float64]:
    """Return RESAMPLES medians; each run keeps its length in every resample."""
    lengths = np.array([len(run) for run in runs])
    samples = np.zeros((len(runs), lengths.max()))
    for row, run in zip(samples, runs, strict=True):
        row[: len(run)] = run
    step = max(1, _DRAWS_AT_ONCE // samples.size)
    counts = [min(step, RESAMPLES - start) for start in range(0, RESAMPLES, step)]
    return np.concatenate([_draw_medians(samples, lengths, n, generator) for n in counts])


def _draw_medians(
    samples: NDArray[np.float64], lengths: NDArray[np.int_], count: int, rng: np.random.Generator
) -> NDArray[np.float64]:
    """samples: (runs, longest), of which `lengths` are filled; returns (count,) medians."""
    runs, longest = samples.shape
    chosen = rng.integers(runs, size=(count, runs - 1))
    drawn = lengths[chosen]
    index = (rng.random((count, runs - 1, longest)) * drawn[:, :, None]).astype(np.intp)
    index += longest * chosen[:, :, None]
    values = samples.ravel().take(index)
    if lengths.min() < longest:
        values[np.arange(longest) >= drawn[:, :, None]] = np.inf  # sorts after the drawn samples
    ordered = np.sort(values.reshape(count, -1), axis=1)
    total = drawn.sum(axis=1)
    row = np.arange(count)
    lower, upper = ordered[row, (total - 1) // 2], ordered[row, total // 2]
    return np.asarray((lower + upper) / 2)
