"""How many epochs a batch needs, by points of batch and epochs. Pure."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import fmean

from controller.contracts.manifests import ConvergencePoint
from controller.stats.power_law import PowerLaw, Predicted, power_law


@dataclass(frozen=True, slots=True)
class EpochsLaw:
    """A power law of the batch, from the smallest batch of the points on."""

    law: PowerLaw
    least: int
    most: int

    def at(self, batch: float) -> Predicted:
        """Return the epochs at a batch, with the interval of a new point: a training, or
        the mean of as many as the points are means of.

        Below the points, they are those at the smallest one: where batches are small, steps to the
        target halve as the batch doubles, so that epochs stay (Shallue et al., arXiv 1811.03600,
        "perfect scaling"). The power law would come to less than one epoch there.
        """
        return self.law.at(max(batch, self.least))

    def is_inside(self, batch: int) -> bool:
        """Whether a batch is between those of the points."""
        return self.least <= batch <= self.most


def epochs_law(points: Sequence[ConvergencePoint]) -> EpochsLaw:
    """Return the law of points, which are in the order of their batches; two batches at least."""
    law = power_law([(point.batch, point.epochs) for point in points], _unseen(points))
    return EpochsLaw(law, points[0].batch, points[-1].batch)


def _unseen(points: Sequence[ConvergencePoint]) -> float:
    """Return how little of the epochs' logarithms is known, as a standard deviation: a training
    reached the target anywhere since it was last looked at. Infinite if one had not been."""
    widths = [
        math.log(point.epochs / point.missed) if point.missed > 0 else math.inf
        for point in points
        if point.missed is not None
    ]
    return math.sqrt(fmean(width**2 for width in widths) / 12) if widths else 0.0
