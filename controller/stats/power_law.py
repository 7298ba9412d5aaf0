"""A power law through a few points, with the interval of a point that was not seen. Pure."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import fmean

from controller.stats.medians import LARGEST_EXPONENT
from controller.stats.pairs import CONFIDENCE, t_quantile

LEAST_POINTS = 2


@dataclass(frozen=True, slots=True)
class Predicted:
    """A value of the law, and how well a new point at it is known."""

    value: float
    factor: float | None
    """f of the 95 % interval [value / f, value * f]; None if the points leave nothing to judge by:
    two of them always lie on a law."""


@dataclass(frozen=True, slots=True)
class PowerLaw:
    """y = factor * x ** exponent, by least squares of the logarithms."""

    factor: float
    exponent: float
    points: int
    spread: float
    """Standard deviation of the points' logarithms about the law, of points - 2 degrees of
    freedom, or what the points themselves are uncertain by, if that is more; infinite if they are
    not known at all."""
    centre: float
    """Mean of the logarithms of x."""
    reach: float
    """Sum of the squared distances of the logarithms of x from their mean."""

    @property
    def exponent_error(self) -> float | None:
        """Half the 95 % interval of the exponent; None if the points leave nothing to judge by."""
        if self.points <= LEAST_POINTS or math.isinf(self.spread):
            return None
        return t_quantile(self.points - 2, CONFIDENCE) * self.spread / math.sqrt(self.reach)

    def at(self, x: float) -> Predicted:
        """Return y at a positive x, with the interval of a new point there, which
        is a mean of as much as the points are.

        It widens with the distance from the points, which says nothing about a law that no longer
        holds there.
        """
        away = math.log(x) - self.centre
        value = self.factor * x**self.exponent
        if self.points <= LEAST_POINTS:
            return Predicted(value, None)
        error = self.spread * math.sqrt(1 + 1 / self.points + away**2 / self.reach)
        reach = t_quantile(self.points - 2, CONFIDENCE) * error
        return Predicted(value, math.exp(reach) if reach < LARGEST_EXPONENT else None)


def power_law(points: Sequence[tuple[float, float]], uncertain: float = 0.0) -> PowerLaw:
    """Fit points (x, y), all positive.

    uncertain: standard deviation of the logarithms of y, as far as it is known.

    Raises ValueError for fewer than two different x.
    """
    xs, ys = ([math.log(point[axis]) for point in points] for axis in (0, 1))
    if len(set(xs)) < LEAST_POINTS:
        raise ValueError("a power law needs points at two places or more")
    centre, middle = fmean(xs), fmean(ys)
    reach = sum((x - centre) ** 2 for x in xs)
    exponent = sum((x - centre) * (y - middle) for x, y in zip(xs, ys, strict=True)) / reach
    off = [y - middle - exponent * (x - centre) for x, y in zip(xs, ys, strict=True)]
    freedom = len(points) - 2
    about = math.sqrt(sum(one**2 for one in off) / freedom) if freedom else 0.0
    spread = max(about, uncertain)
    factor = math.exp(middle - exponent * centre)
    return PowerLaw(factor, exponent, len(points), spread, centre, reach)
