"""Medians, spreads and the interval of a ratio. Pure; the bootstrap is seeded."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median, quantiles

RESAMPLES = 2000
CONFIDENCE = 0.95

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
    """A ratio of medians with its bootstrap interval; without one where a side has one sample."""

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
    """Return median(over) / median(under) with a 95 % percentile bootstrap interval.

    Resamples runs, then samples within each, so that the difference between repeats of one cell
    widens the interval.
    """
    value = _median(over) / _median(under)
    if any(sum(map(len, runs)) < 2 for runs in (over, under)):
        return Ratio(value, None)
    generator = random.Random(seed)
    ratios = sorted(
        _resampled_median(over, generator) / _resampled_median(under, generator)
        for _ in range(RESAMPLES)
    )
    tail = int(RESAMPLES * (1 - CONFIDENCE) / 2)
    return Ratio(value, (ratios[tail], ratios[-1 - tail]))


def paired_ratio(over: Runs, under: Runs, seed: int = 0) -> Ratio:
    """Return the median over pairs of median(over) / median(under), with a bootstrap interval.

    The n-th runs of both sides were measured side by side, so drift cancels within each pair.
    """
    ratios = [median(a) / median(b) for a, b in zip(over, under, strict=True)]
    generator = random.Random(seed)
    medians = sorted(median(generator.choices(ratios, k=len(ratios))) for _ in range(RESAMPLES))
    tail = int(RESAMPLES * (1 - CONFIDENCE) / 2)
    return Ratio(median(ratios), (medians[tail], medians[-1 - tail]))


def _median(runs: Runs) -> float:
    return median(sample for run in runs for sample in run)


def _resampled_median(runs: Runs, generator: random.Random) -> float:
    chosen = generator.choices(runs, k=len(runs))
    return median(sample for run in chosen for sample in generator.choices(run, k=len(run)))
