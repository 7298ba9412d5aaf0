"""Energy of a span from samples of power or of a counter, with its uncertainty. Pure."""

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
"""Samples further apart than this many usual periods have a gap between them."""
MOST_UNCERTAIN: Final = 0.1
"""Largest relative uncertainty; energy that is less certain counts as unknown."""
ROUNDED: Final = 1e-5
"""Largest relative error from rounding to whole numbers."""
_SAME: Final = 1e-12
"""Relative difference up to which two readings are the same number, written differently."""
_STANDARD_ERRORS: Final = NormalDist().inv_cdf((1 + CONFIDENCE) / 2)
"""So many on either side hold 95 %: 1.96."""
Samples = Sequence[tuple[float, float]]
"""Ascending times in seconds, with the values."""
Floats = NDArray[np.float64]


class EnergyUnknownError(ValueError):
    """Energy that can't be derived from the readings; the message gives the reason."""


@dataclass(frozen=True, slots=True)
class Span:
    """A time span, in seconds of the samples' clock."""

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
    """The true value lies within this distance, with 95 % confidence."""

    def above(self, other: Joules, times: float) -> Joules:
        """Return this minus `times` the other energy; their errors are independent."""
        uncertainty = float(np.hypot(self.uncertainty, times * other.uncertainty))
        return Joules(self.value - times * other.value, uncertainty)

    def plus(self, other: Joules) -> Joules:
        """Return the sum; the uncertainties are added."""
        return Joules(self.value + other.value, self.uncertainty + other.uncertainty)


def of_power(watts: Samples, span: Span, clock_s: float = 0.0) -> Joules:
    """Integrate samples of power (W) over a span by trapezoids; raises EnergyUnknownError.

    The uncertainty includes the scatter of neighbours (von Neumann's mean square successive
    difference), at either end a reading as old as readings usually stay unchanged, and in gaps the
    whole range of values. clock_s: possible offset of the span on the samples' clock; such a shift
    changes the energy by the difference between the span's ends, at most that of all samples.
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


def require_changes(values: Sequence[float], what: str, unit: str) -> None:
    """Raise EnergyUnknownError if a gauge's values changed less than twice in all its readings.

    How old a reading may be is then not known. what: names the gauge in the error.
    """
    if len(values) < LEAST_SAMPLES:  # which of_power reports
        return
    steps = np.flatnonzero(~np.isclose(values[1:], values[:-1], rtol=_SAME, atol=0))
    if not steps.size:
        raise EnergyUnknownError(f"{what} stood at {values[0]:g} {unit} all the time")
    if steps.size == 1:
        raise EnergyUnknownError(f"{what} changed only once, so its readings may be of any age")


def of_counter(joules: Samples, span: Span, resolution_j: float) -> Joules:
    """Return the energy of a span from a rising counter of joules; raises EnergyUnknownError.

    Before the first sample in the span and after the last, the mean power is assumed, with the
    variation of power as uncertainty. A counter that stands still adds its largest step.
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
    """Return the counts since the first sample, for a counter that wraps around after `highest`.

    Raises EnergyUnknownError if it may have wrapped around more than once between two samples, or
    rose more than is possible, which means that it was reset.
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
    """Return the resolution of a counter: the greatest common divisor of its steps."""
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
    """Return the time of a span before its first sample and after its last."""
    return float(at[0] - span.began_s + span.ended_s - at[-1])


def _stood_s(at: Floats, power: Floats) -> float:
    """Return how long a reading usually stays unchanged: a gauge may be slower than the sampler."""
    changes = at[1:][np.diff(power) != 0]
    return float(np.median(np.diff(changes))) if changes.size > 1 else float(at[-1] - at[0])


def _missing_s(grid: Floats) -> float:
    """Return the time of a span that lies in gaps between samples, its ends included."""
    between = np.diff(grid)
    usual = float(np.median(np.diff(grid[1:-1])))
    return float(np.sum(between[between > GAP * usual]))


def sure_enough(joules: Joules, seconds: float) -> Joules:
    """Return energy if it is certain enough; else raises EnergyUnknownError."""
    if joules.value <= 0:
        raise EnergyUnknownError(f"{joules.value:.3g} J were used in {seconds:.1f} s")
    if joules.uncertainty > MOST_UNCERTAIN * joules.value:
        share = joules.uncertainty / joules.value
        raise EnergyUnknownError(f"its readings tell it to ±{share:.0%} only")
    return joules
