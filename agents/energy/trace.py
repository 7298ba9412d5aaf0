"""Energy between two moments, as samples of power or of a counter tell it, and how sure. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import NormalDist
from typing import Final

import numpy as np
from numpy.typing import NDArray

from controller.stats.pairs import CONFIDENCE

LEAST_SAMPLES: Final = 3
GAP: Final = 3.0
"""Samples further apart than so many usual periods have a gap between them."""
MOST_UNCERTAIN: Final = 0.1
"""Of what was used: what is less sure than this is not known."""
ROUNDED: Final = 1e-5
"""Share by which a reading is off for being told in whole numbers, at the most."""
_STANDARD_ERRORS: Final = NormalDist().inv_cdf((1 + CONFIDENCE) / 2)
"""So many on either side hold 95 %: 1.96."""
Samples = Sequence[tuple[float, float]]
"""Moments in seconds, rising, and what was read then."""
Floats = NDArray[np.float64]


class EnergyUnknownError(ValueError):
    """What was read doesn't tell how much energy was used; the message says why."""


@dataclass(frozen=True, slots=True)
class Span:
    """A stretch of time, in seconds of the clock that the samples go by."""

    began_s: float
    ended_s: float

    @property
    def seconds(self) -> float:
        """Its length."""
        return self.ended_s - self.began_s


@dataclass(frozen=True, slots=True)
class Joules:
    """Energy."""

    value: float
    uncertainty: float
    """By so much the true value may lie above or below, with 95 % confidence."""

    def above(self, other: Joules, times: float) -> Joules:
        """Return what is above another energy taken so many times; their errors are independent."""
        uncertainty = float(np.hypot(self.uncertainty, times * other.uncertainty))
        return Joules(self.value - times * other.value, uncertainty)

    def plus(self, other: Joules) -> Joules:
        """Return both together, as uncertain as both."""
        return Joules(self.value + other.value, self.uncertainty + other.uncertainty)


def of_power(watts: Samples, span: Span, clock_s: float = 0.0) -> Joules:
    """Integrate samples of power (W) over a span, by trapezoids; raises EnergyUnknownError.

    Uncertain by the scatter of neighbours (von Neumann's mean square successive difference), at
    either end by a reading as old as readings usually stand, and in gaps by all that was ever used.
    clock_s: by how much the span may lie elsewhere on the samples' clock; what a shift would change
    is the difference between its ends, at most that of all samples.
    """
    at, power = _inside(watts, span)
    grid = np.concatenate(([span.began_s], at, [span.ended_s]))
    joules = float(np.trapezoid(np.interp(grid, at, power), grid))
    scatter = float(np.sqrt(np.mean(np.diff(power) ** 2) / 2 / power.size)) * span.seconds
    stale = float(np.ptp(power)) * (_stood_s(at, power) + _edges_s(at, span)) / 2
    missing = float(np.max(power)) * _missing_s(grid) / 2
    shifted = clock_s * float(np.ptp(_columns(watts)[1])) if clock_s else 0.0
    uncertainty = _STANDARD_ERRORS * scatter + stale + missing + shifted + ROUNDED * abs(joules)
    return sure_enough(Joules(joules, uncertainty), span.seconds)


def of_counter(joules: Samples, span: Span, resolution_j: float) -> Joules:
    """Return what a rising counter of joules says of a span; raises EnergyUnknownError.

    What was used before the first look in the span and after the last is taken from the mean
    power, uncertain by how power varied. A counter that stands is uncertain by its largest step.
    """
    at, count = _inside(joules, span)
    steps = np.diff(count)
    if np.any(steps < 0):
        raise EnergyUnknownError("its counter ran backwards")
    if not np.any(steps):
        raise EnergyUnknownError("its counter stood still")
    power = (count[-1] - count[0]) / (at[-1] - at[0])
    varied = float(np.ptp(steps / np.diff(at))) * _edges_s(at, span) / 2
    stood = 0.0 if np.all(steps) else float(np.max(steps))
    uncertainty = max(resolution_j, stood) + varied
    return sure_enough(Joules(float(power) * span.seconds, uncertainty), span.seconds)


def unwrapped(counts: Samples, highest: int, most_a_second: float) -> list[tuple[float, float]]:
    """Return what was counted since the first look, by a counter that begins anew after `highest`.

    Raises EnergyUnknownError where it may have gone round more than once between two looks, or has
    counted more between them than can be used: it was set back, which looks like going round.
    """
    at, count = _columns(counts, least=2)
    if (longest := float(np.max(np.diff(at)))) * most_a_second > highest:
        raise EnergyUnknownError(f"its counter may have gone round unseen in {longest:.0f} s")
    steps = np.diff(count) % (highest + 1)
    if np.any(steps > most_a_second * np.diff(at)):
        raise EnergyUnknownError("its counter jumped, as when it is set back")
    used = np.concatenate(([0.0], np.cumsum(steps)))
    return list(zip(at.tolist(), used.tolist(), strict=True))


def resolution(counts: Samples) -> float:
    """Return what a counter of whole numbers counts in: the greatest that divides all its steps."""
    return float(np.gcd.reduce(np.diff([int(count) for _, count in counts])))


def _columns(samples: Samples, least: int = LEAST_SAMPLES) -> tuple[Floats, Floats]:
    if len(samples) < least:
        raise EnergyUnknownError(f"{len(samples)} readings, where {least} are needed")
    at, values = np.asarray(samples, dtype=np.float64).T
    if not np.isfinite(values).all() or np.any(np.diff(at) <= 0):
        raise EnergyUnknownError("its readings are not numbers at rising times")
    return at, values


def _inside(samples: Samples, span: Span) -> tuple[Floats, Floats]:
    return _columns([(at, v) for at, v in samples if span.began_s <= at <= span.ended_s])


def _edges_s(at: Floats, span: Span) -> float:
    """Return how much of a span lies before its first sample and after its last."""
    return float(at[0] - span.began_s + span.ended_s - at[-1])


def _stood_s(at: Floats, power: Floats) -> float:
    """Return for how long a reading usually stands: a gauge may be slower than who reads it."""
    changes = at[1:][np.diff(power) != 0]
    return float(np.median(np.diff(changes))) if changes.size > 1 else float(at[-1] - at[0])


def _missing_s(grid: Floats) -> float:
    """Return how much of a span lies in gaps: its samples, with its ends."""
    between = np.diff(grid)
    usual = float(np.median(np.diff(grid[1:-1])))
    return float(np.sum(between[between > GAP * usual]))


def sure_enough(joules: Joules, seconds: float) -> Joules:
    """Return energy that is known well enough to be told; raises EnergyUnknownError."""
    if joules.value <= 0:
        raise EnergyUnknownError(f"{joules.value:.3g} J were used in {seconds:.1f} s")
    if joules.uncertainty > MOST_UNCERTAIN * joules.value:
        share = joules.uncertainty / joules.value
        raise EnergyUnknownError(f"its readings tell it to ±{share:.0%} only")
    return joules
