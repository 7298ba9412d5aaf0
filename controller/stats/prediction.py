"""Prediction of a run of normal length from a short one, with a 95 % interval. Pure.

Neighbouring latencies are alike, so those of a run are worth fewer independent ones. The interval
is that of so many: Student's for a mean, order statistics for a percentile. It covers the
uncertainty of the short run and the variation of a normal run in the same session, but neither a
drift that begins after the end of the short run nor another session.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from controller.contracts.result import Measurement
from controller.contracts.units import Unit
from controller.stats.order_statistics import numbers_below
from controller.stats.pairs import CONFIDENCE, t_quantile

NORMAL_QUERIES: Final = 1024
"""Least queries of the normal run; a longer run varies less, so the interval is conservative."""
LEAST: Final = 40
"""Fewer latencies give no prediction: they don't show how alike neighbours are."""
LEAST_WORTH: Final = 3
"""Fewer independent latencies give no interval of a mean."""
MOST_EXCEEDING: Final = 2
"""Whether latencies exceed a high percentile is less alike of neighbours than the latencies are:
for Gaussian noise it is worth up to about twice as many. It is seldom so, thus its own worth is
known badly."""
_PERCENTILE: Final = 0.9
_TAIL: Final = (1 - CONFIDENCE) / 2
_Series = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Prediction:
    """A metric of the normal run."""

    value: float
    interval: tuple[float, float] | None
    """The ends of the 95 % interval; None: so few latencies, this much alike, don't give one."""


def predictions(scenario: str, latencies_s: Sequence[float]) -> Mapping[str, Measurement]:
    """Return the scenario's metric as predicted for a normal run, and the ends of its interval.

    The ends are missing if there is no interval; all is, for fewer than LEAST latencies.
    """
    if len(latencies_s) < LEAST:
        return {}
    if scenario == "single_stream":
        return _measurements("latency_p90", predicted_p90(latencies_s), Unit.SECONDS)
    if scenario == "offline":
        found = predicted_throughput(latencies_s)
        return _measurements("throughput", found, Unit.SAMPLES_PER_SECOND)
    return {}


def predicted_throughput(latencies_s: Sequence[float]) -> Prediction:
    """Return 1 / the mean latency, in samples per second."""
    seen = np.asarray(latencies_s, dtype=float)
    mean, count = float(seen.mean()), worth(seen)
    if count < LEAST_WORTH:
        return Prediction(1 / mean, None)
    spread = float(seen.std(ddof=1)) / mean
    error = spread * math.sqrt(_both_runs(len(seen)) / count)
    factor = math.exp(t_quantile(math.floor(count) - 1, CONFIDENCE) * error)
    return Prediction(1 / mean, (1 / mean / factor, 1 / mean * factor))


def predicted_p90(latencies_s: Sequence[float]) -> Prediction:
    """Return the 90th percentile of the latencies, in seconds.

    How many of independent latencies lie below the true percentile is binomial (David & Nagaraja
    2003, 7.1).
    """
    seen = np.sort(np.asarray(latencies_s, dtype=float))
    value = float(np.quantile(seen, _PERCENTILE))
    exceeding = (np.asarray(latencies_s) > value).astype(float)
    independent = min(worth(exceeding), MOST_EXCEEDING * worth(np.asarray(latencies_s)))
    count = math.floor(independent / _both_runs(len(seen)))
    if _PERCENTILE**count > _TAIL:
        return Prediction(value, None)
    fewest, most = numbers_below(count, _PERCENTILE, _TAIL)
    low = math.floor(fewest / count * len(seen)) - 1
    high = math.ceil((most + 1) / count * len(seen)) - 1
    return Prediction(value, (float(seen[max(0, low)]), float(seen[min(high, len(seen) - 1)])))


def worth(series: NDArray[Any]) -> float:
    """Return how many independent values give as good a mean as a series of alike neighbours.

    The number of values / (1 + 2 × the sum of their autocorrelations), where this is the larger of
    two: of an AR(1) process whose coefficient is at the upper end of its standard error, less its
    bias (Kendall 1954, Note on bias in the estimation of autocorrelation), and of the
    autocorrelations as seen, up to the first negative sum of two (Geyer 1992, Practical Markov
    chain Monte Carlo).
    """
    count, off = len(series), series - series.mean()
    power = float(off @ off)
    # Equal values differ from their mean by rounding.
    if power <= count * (np.finfo(float).eps * float(np.abs(series).max())) ** 2:
        return float(count)
    spectrum = np.abs(np.fft.rfft(off, 2 * count)) ** 2
    alike = np.fft.irfft(spectrum)[: count // 2] / power
    return count / max(1.0, _times_by_first(float(alike[1]), count), _times_as_seen(alike, count))


def _times_by_first(alike: float, count: int) -> float:
    unbiased = max(0.0, alike + (1 + 4 * alike) / count)
    upper = min(unbiased + math.sqrt(max(0.0, 1 - unbiased**2) / count), 1 - 1 / count)
    return (1 + upper) / (1 - upper)


def _times_as_seen(alike: _Series, count: int) -> float:
    pairs = alike[1 : len(alike) // 2 * 2 - 1].reshape(-1, 2).sum(axis=1)
    ends = np.flatnonzero(pairs <= 0)
    times = 1 + 2 * float(pairs[: ends[0] if len(ends) else None].sum())
    # The mean is that of the values themselves, which takes as much from each autocorrelation.
    return times / (1 - min(times / count, 0.9))


def _both_runs(short: int) -> float:
    """Return how many times the variance of the short run that of both runs together is."""
    return 1 + short / max(short, NORMAL_QUERIES)


def _measurements(metric: str, found: Prediction, unit: Unit) -> dict[str, Measurement]:
    values = {"": found.value}
    if found.interval:
        values |= {"_low": found.interval[0], "_high": found.interval[1]}
    return {
        f"predicted_{metric}{end}": Measurement(value=value, unit=unit)
        for end, value in values.items()
    }
