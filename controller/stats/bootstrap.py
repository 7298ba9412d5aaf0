"""Medians, spreads and ratios with their intervals. Pure; the bootstrap is seeded."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median, quantiles

import numpy as np
from numpy.typing import NDArray

from controller.stats.pairs import CONFIDENCE

RESAMPLES = 2000
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


@dataclass(frozen=True, slots=True, eq=False)
class Bootstrap:
    """A median, and the medians of RESAMPLES resamples in order of drawing; none for a single
    run."""

    median: float
    resampled: NDArray[np.float64] | None

    @property
    def interval(self) -> tuple[float, float] | None:
        """The 95 % percentile interval of the median."""
        return None if self.resampled is None else _interval(self.resampled)


def bootstrap(runs: Runs, stream: int = 0) -> Bootstrap:
    """Resample runs, then samples within each, so that an outlying run widens the interval.

    Each resample has one run fewer than the data (McCarthy & Snowden 1985); with as many, intervals
    would be too narrow, for two runs by a third. A single run shows nothing about differences
    between runs.

    stream: selects the random numbers; the two sides of a ratio need different ones. Raises
    StatisticsError without samples.
    """
    if len(runs) < 2:
        return Bootstrap(_median(runs), None)
    return Bootstrap(_median(runs), _resampled_medians(runs, np.random.default_rng(stream)))


def ratio(over: Bootstrap, under: Bootstrap) -> Ratio:
    """Return the ratio of two medians with a 95 % percentile interval, if both were resampled."""
    value = over.median / under.median
    if over.resampled is None or under.resampled is None:
        return Ratio(value, None)
    return Ratio(value, _interval(over.resampled / under.resampled))


def ratio_of_medians(over: Runs, under: Runs, seed: int = 0) -> Ratio:
    """Return median(over) / median(under) with a 95 % percentile bootstrap interval."""
    return ratio(bootstrap(over, 2 * seed), bootstrap(under, 2 * seed + 1))


def _median(runs: Runs) -> float:
    return median(sample for run in runs for sample in run)


def _interval(values: NDArray[np.float64]) -> tuple[float, float]:
    ordered = np.sort(values)
    tail = int(len(ordered) * (1 - CONFIDENCE) / 2)
    return float(ordered[tail]), float(ordered[-1 - tail])


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
