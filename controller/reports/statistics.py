"""Medians, spreads and ratios with their intervals. Pure; the bootstrap is seeded."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median, quantiles

from controller.contracts.pairs import CONFIDENCE

RESAMPLES = 2000

Runs = Sequence[Sequence[float]]
"""Raw samples, one sequence a run: samples of one run belong together."""


@dataclass(frozen=True, slots=True)
class Spread:
    """A median with the quartiles of the samples around it."""

    median: float
    low: float
    high: float


@dataclass(frozen=True, slots=True)
class Ratio:
    """A ratio with its 95 % interval, if there is enough to make one from."""

    value: float
    interval: tuple[float, float] | None

    @property
    def shown(self) -> bool:
        """Whether the interval leaves 1 out: only then is there a difference to speak of."""
        return self.interval is not None and not self.interval[0] <= 1.0 <= self.interval[1]


def spread(runs: Runs) -> Spread:
    """Return median and quartiles over all samples; raises StatisticsError without any."""
    samples = [sample for run in runs for sample in run]
    if len(samples) == 1:
        return Spread(samples[0], samples[0], samples[0])
    low, middle, high = quantiles(samples, n=4, method="inclusive")
    return Spread(middle, low, high)


def ratio_of_medians(over: Runs, under: Runs, seed: int = 0) -> Ratio:
    """Return median(over) / median(under) of runs that were not interleaved.

    The interval is a percentile bootstrap that resamples runs, then samples within each. It draws
    one run fewer than there are (McCarthy & Snowden 1985): as many would be too narrow by half
    where a side has two. Without two runs on both sides there is no interval, for nothing tells
    how much runs differ.
    """
    value = _median(over) / _median(under)
    if min(len(over), len(under)) < 2:
        return Ratio(value, None)
    generator = random.Random(seed)
    ratios = sorted(
        _resampled_median(over, generator) / _resampled_median(under, generator)
        for _ in range(RESAMPLES)
    )
    tail = int(RESAMPLES * (1 - CONFIDENCE) / 2)
    return Ratio(value, (ratios[tail], ratios[-1 - tail]))


def _median(runs: Runs) -> float:
    return median(sample for run in runs for sample in run)


def _resampled_median(runs: Runs, generator: random.Random) -> float:
    chosen = generator.choices(runs, k=len(runs) - 1)
    return median(sample for run in chosen for sample in generator.choices(run, k=len(run)))
