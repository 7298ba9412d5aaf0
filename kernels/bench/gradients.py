"""How far a gradient may be from the true one: each of its elements, also the smallest.

Most elements of a focal loss's gradient are those of easy negatives, many decades below the
largest: a bound relative to the largest value would not see that they are missing.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor

GRADIENT_ERROR = {"fp32": 1e-5, "bf16": 2.0**-7}
"""Bounds of each element's relative error. The kernels' own are 1e-6 in fp32; in bf16, upstream
gradient and result are rounded once each."""

TINY = 1e-30
"""Smaller elements may lose bits to subnormal intermediate ones."""

DECADES = 12
"""Decades below the largest element that are told apart; the last one has all smaller ones, too."""
SOME_DIGIT = 0.25
"""Relative error of eager mode, above which it has no digit of a decade right, as in bf16 of easy
negatives, whose 1 - p_t rounds to 0 or to 2^-8."""
PIECE = 1 << 20


def wrong_elements(dtype: str, found: Tensor, truth: Tensor) -> list[str]:
    """Return a message if an element of a kernel's gradient differs by more than GRADIENT_ERROR."""
    bound = GRADIENT_ERROR[dtype]
    # The negated comparison also catches NaN.
    wrong = ~((found.double() - truth).abs() <= bound * truth.abs() + TINY)
    if not (count := int(wrong.sum())):
        return []
    of = f"{count} of {wrong.numel()} elements"
    return [f"gradient: {of} differ by more than {bound:.0e} of their own value"]


def decades_of_errors(found: Tensor, truth: Tensor) -> list[float]:
    """Return the error's norm relative to the truth's, in each decade below the truth's largest.

    0 where the truth has no element.
    """
    largest = truth.abs().max().double()
    errors, norms = (torch.zeros(DECADES, dtype=torch.float64) for _ in range(2))
    pieces = (torch.split(t.flatten(), PIECE) for t in (found, truth))
    for mine, true in zip(*pieces, strict=True):
        mine, true = (t[true != 0].double() for t in (mine, true))
        decade = (largest / true.abs()).log10().clamp(0, DECADES - 1).long()
        errors += torch.bincount(decade, (mine - true).square(), DECADES)
        norms += torch.bincount(decade, true.square(), DECADES)
    return (errors / norms.clamp(min=1e-300)).sqrt().tolist()


def bounds_by_decade(eager: list[float]) -> list[float]:
    """Return the bounds of another implementation's errors from those of eager mode.

    A third as many digits have to be right: honest formulas that round between their steps have
    more. Nothing is asked for where eager mode has none, or has no element to go by.
    """
    return [error ** (1 / 3) if 0 < error < SOME_DIGIT else math.inf for error in eager]


def coarse_decades(found: Tensor, truth: Tensor, bounds: list[float]) -> list[str]:
    """Return a message for the first decade whose error is above its bound."""
    errors = decades_of_errors(found, truth)
    for decade, (error, bound) in enumerate(zip(errors, bounds, strict=True)):
        if not error <= bound:
            of = f"{10.0**-decade:.0e} to {10.0 ** -(decade + 1):.0e} of the largest"
            return [f"gradients of {of}: relative error {error:.2e}, bound {bound:.0e}"]
    return []
