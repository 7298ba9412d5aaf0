"""Whether one training follows another: their gradients at the same weights, and their losses. Pure.

A loss alone does not tell: after a few hundred steps two right trainings have drifted apart by
rounding, and Adam's step does not change if a gradient is scaled.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, Self

SIGMAS: Final = 5.0
"""Of the error of a scale that rounding at random would leave."""
APART: Final = 4.0
"""Times the distance to which rounding alone drives two trainings apart."""


@dataclass(frozen=True, slots=True)
class Dots:
    """Inner products of one tensor's gradients in two trainings, added up over batches."""

    size: int
    """Numbers in the tensor."""
    reference: float
    """Of the reference's gradient with itself."""
    both: float
    other: float

    def __add__(self, more: Dots) -> Self:
        """Return the sums over both."""
        added = (getattr(self, n) + getattr(more, n) for n in ("reference", "both", "other"))
        return type(self)(self.size, *added)

    @property
    def scale(self) -> float:
        """The factor by which the reference's gradient is nearest to the other's."""
        return self.both / self.reference if self.reference else math.inf

    @property
    def residual(self) -> float:
        """What is then left of the other's, relative to the reference's."""
        if not self.reference:
            return 0.0 if not self.other else math.inf
        left = self.other - self.both * self.both / self.reference
        return math.sqrt(max(0.0, left) / self.reference)


@dataclass(frozen=True, slots=True)
class Limits:
    """How far a training of a number format may be from one in fp32."""

    scale: float
    """Of a gradient's scale from 1, beyond what its residual explains at random."""
    residual: float
    """Of a gradient's residual."""
    loss: float
    """Of a loss from the reference's, relative to it, beyond the drift that rounding explains."""
    nudge: float
    """Relative change of the weights that drifts as the format's rounding does."""


def gradient_objections(dots: Mapping[str, Dots], limits: Limits) -> Iterator[str]:
    """Yield why gradients are not the reference's, the worst tensor first of each kind.

    dots: by the parameter's name.
    """
    scaled = {
        name: abs(one.scale - 1.0) - SIGMAS * one.residual / math.sqrt(one.size)
        for name, one in dots.items()
    }
    wrong = [name for name, off in scaled.items() if off > limits.scale]
    if wrong:
        worst = max(wrong, key=lambda name: scaled[name])
        yield (
            f"the gradient of {worst} is {dots[worst].scale:.4g} times the reference's; within "
            f"{limits.scale:.1%} is allowed{_more(wrong)}"
        )
    far = [name for name, one in dots.items() if one.residual > limits.residual]
    if far:
        worst = max(far, key=lambda name: dots[name].residual)
        yield (
            f"the gradient of {worst} differs from the reference's by {dots[worst].residual:.1%} "
            f"of it; {limits.residual:.1%} is allowed{_more(far)}"
        )


def band(reference: Sequence[float], nudged: Sequence[float], limits: Limits) -> list[float]:
    """Return how far each loss may be from the reference's.

    nudged: losses of the reference from weights that were changed by `limits.nudge`; how far they
    are from the reference's, so far, is how far rounding drives two trainings apart.
    """
    drift, found = 0.0, []
    for loss, other in zip(reference, nudged, strict=True):
        drift = max(drift, abs(other - loss))
        found.append(limits.loss * abs(loss) + APART * drift)
    return found


def first_outside(
    losses: Sequence[float], reference: Sequence[float], allowed: Sequence[float]
) -> int | None:
    """Return the first step, from 0, whose loss is outside the band, or is no number."""
    for step, (loss, wanted, most) in enumerate(zip(losses, reference, allowed, strict=True)):
        if not abs(loss - wanted) <= most:
            return step
    return None


def _more(names: Sequence[str]) -> str:
    return f" (and {len(names) - 1} more tensors)" if len(names) > 1 else ""
