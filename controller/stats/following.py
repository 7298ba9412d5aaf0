"""Whether one training follows another: gradients at the same weights, losses of its steps. Pure.

A loss alone does not tell: after a few hundred steps two right trainings have drifted apart by
rounding, and Adam's step does not change if a gradient is scaled.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final, Self

SIGMAS: Final = 5.0
"""Of the error of a scale that rounding at random would leave."""
ROUNDING: Final = 2.0
"""Times what the number format's rounding does to the plain model's gradient: two right ways to
compute it may round in opposite directions."""
NUDGES: Final = 10
"""Most nudged trainings that tell how far rounding drives two trainings apart.

Given the reference, a right training's distance to it is one more draw of the nudged ones'. It is
beyond all n with a chance of 1/(n + 1), whatever their distribution. That it is beyond APART times
the largest, at a step that alone decides, has a chance of 16 % for n = 1, 0.15 % for 5, 0.004 % for
10 if distances are normal; 31 %, 6 %, 3 % if their logarithms are, with a standard deviation of 2,
about what RetinaNet's have.
"""
APART: Final = 4.0
"""Times the largest of these distances."""


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
        if not self.reference:
            return math.inf if self.other else 1.0
        return self.both / self.reference

    @property
    def random_scale(self) -> float:
        """The standard error of the scale, if the residual is random."""
        return self.residual / math.sqrt(self.size)

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
    """Of a gradient's scale from 1, beyond what rounding explains."""
    residual: float
    """Of a gradient's residual, beyond what rounding explains."""
    loss: float
    """Of a loss from the reference's, relative to it, beyond the drift that rounding explains."""
    nudge: float
    """Relative change of the weights that drifts as the format's rounding does."""


def total(batches: Iterable[Mapping[str, Dots]]) -> dict[str, Dots]:
    """Return the sums over batches, by tensor."""
    found: dict[str, Dots] = {}
    for batch in batches:
        for name, one in batch.items():
            found[name] = found[name] + one if name in found else one
    return found


def gradient_objections(
    dots: Mapping[str, Dots], rounding: Mapping[str, Dots], limits: Limits, precision: str
) -> Iterator[str]:
    """Yield why gradients in a number format are not the plain model's; of each kind, the worst.

    dots: by the parameter's name. rounding: the same of the plain model in this format, which tells
    what the format's rounding does to each gradient; empty in fp32.
    """
    if not dots:
        yield "the plain model has no gradients"
    allowed = {name: _allowed(rounding.get(name), limits) for name in dots}
    off = {
        name: abs(one.scale - 1.0) - allowed[name].scale - SIGMAS * one.random_scale
        for name, one in dots.items()
    }
    if wrong := [name for name, excess in off.items() if not excess <= 0]:
        worst = max(wrong, key=lambda name: off[name])
        yield (
            f"in {precision}, the gradient of {worst} is {dots[worst].scale:.4g} times the plain "
            f"model's; within {allowed[worst].scale:.1%} is allowed{_more(wrong)}"
        )
    far = {name: one.residual - allowed[name].residual for name, one in dots.items()}
    if wrong := [name for name, excess in far.items() if not excess <= 0]:
        worst = max(wrong, key=lambda name: far[name])
        yield (
            f"in {precision}, the gradient of {worst} differs from the plain model's by "
            f"{dots[worst].residual:.1%} of it; {allowed[worst].residual:.1%} is allowed"
            f"{_more(wrong)}"
        )


def _allowed(rounding: Dots | None, limits: Limits) -> Limits:
    """Return the limits of one tensor."""
    if rounding is None or not rounding.reference:
        return limits
    return replace(
        limits,
        scale=limits.scale + ROUNDING * abs(rounding.scale - 1.0),
        residual=limits.residual + ROUNDING * rounding.residual,
    )


def band(
    reference: Sequence[float], nudged: Sequence[Sequence[float]], limits: Limits
) -> list[float]:
    """Return how far each loss may be from the reference's.

    nudged: for each of NUDGES trainings, the losses of the reference from weights that were changed
    by `limits.nudge`. The largest distance of any of them from the reference, so far, is how far
    rounding drives two trainings apart. Distances between the nudged are not counted: each of the
    two is nudged, so while a change of the weights acts in proportion they are 1.4 times as far
    apart as either is from the reference. A loss that is no number widens nothing; see
    `plain_objections`.
    """
    drift, found = 0.0, []
    for loss, *others in zip(reference, *nudged, strict=True):
        far = (abs(other - loss) for other in others)
        drift = max([drift, *filter(math.isfinite, far)])
        found.append(limits.loss * abs(loss) + APART * drift)
    return found


def plain_objections(
    reference: Sequence[float], nudged: Sequence[Sequence[float]]
) -> Iterator[str]:
    """Yield why the plain trainings tell of no band: at a step, a loss of theirs is no number."""
    for step, losses in enumerate(zip(reference, *nudged, strict=True), start=1):
        wrong = [loss for loss in losses if not math.isfinite(loss)]
        if wrong:
            yield (
                f"the plain model's own loss of step {step} of {len(reference)} is {wrong[0]} in "
                f"{len(wrong)} of {len(losses)} trainings, which tell of no band to stay in"
            )
            return


@dataclass(frozen=True, slots=True)
class Curves:
    """The losses of a training's steps, the reference's, and how far they may be apart."""

    losses: Sequence[float]
    expected: Sequence[float]
    allowed: Sequence[float]

    @property
    def apart(self) -> tuple[float, ...]:
        """The distance at each step both of whose losses are numbers."""
        pairs = zip(self.losses, self.expected, strict=True)
        return tuple(filter(math.isfinite, (abs(a - b) for a, b in pairs)))

    @property
    def left(self) -> int | None:
        """The first step, from 0, whose loss is outside the band or no number."""
        steps = zip(self.losses, self.expected, self.allowed, strict=True)
        outside = (not abs(loss - wanted) <= most for loss, wanted, most in steps)
        return next((step for step, out in enumerate(outside) if out), None)

    @property
    def used(self) -> float | None:
        """The largest distance, as a share of what is allowed; None if that is no number."""
        steps = zip(self.losses, self.expected, self.allowed, strict=True)
        shares = [_share(abs(loss - wanted), most) for loss, wanted, most in steps]
        return max(shares) if all(map(math.isfinite, shares)) else None

    def objections(self) -> tuple[str, ...]:
        """Return where and by how much the training left the band; empty if it did not."""
        if (step := self.left) is None:
            return ()
        seen = f"the loss of step {step + 1} of {len(self.losses)} is {self.losses[step]:.6g}"
        wanted, most = self.expected[step], self.allowed[step]
        return (f"{seen}, plain fp32's {wanted:.6g}: they may be {most:.2g} apart",)


def beside_nudged(
    losses: Sequence[float],
    reference: Sequence[float],
    nudged: Iterable[Sequence[float]],
    limits: Limits,
) -> tuple[Curves, list[Sequence[float]]]:
    """Return a training beside its reference, and the nudged trainings that told of the band.

    nudged: see `band`; taken one by one until the losses are inside. The rest could but widen the
    band, so what is inside or outside is as it would be with all of them. Nor is another taken once
    a loss is no number. Raises ValueError if there is none.
    """
    taken: list[Sequence[float]] = []
    for other in nudged:
        taken.append(other)
        curves = Curves(losses, reference, band(reference, taken, limits))
        if curves.left is None or curves.used is None or any(plain_objections(reference, taken)):
            return curves, taken
    if not taken:
        raise ValueError("no nudged training tells how far rounding drives trainings apart")
    return curves, taken


def _share(apart: float, allowed: float) -> float:
    """Return what part of an allowed distance was used; none of it, where there is none."""
    if not allowed:
        return math.inf if apart else 0.0
    return apart / allowed


def _more(names: Sequence[str]) -> str:
    return f" (and {len(names) - 1} more tensors)" if len(names) > 1 else ""
