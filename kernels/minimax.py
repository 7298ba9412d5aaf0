"""Computes the polynomials of csrc/vec_math.h: `python -m kernels.minimax` prints their
coefficients.

Remez's exchange algorithm (Remez 1934) finds the polynomial with the smallest maximum relative
error. The constant terms of the logarithms are fixed to the values at 0, so that small losses are
exact.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

_POINTS = 20_001
_EXCHANGES = 10


@dataclass(frozen=True, slots=True)
class Polynomial:
    """c[0] + c[1] x + …, with its maximum relative error."""

    coefficients: Tensor
    error: float


def minimax(
    function: Callable[[Tensor], Tensor],
    low: float,
    high: float,
    degree: int,
    *,
    constant: float | None = None,
) -> Polynomial:
    """Return the best polynomial of a degree for a function without zeros on [low, high].

    constant: fixed value of the constant term.
    """
    first = 0 if constant is None else 1
    held = torch.full((first,), constant or 0.0, dtype=torch.float64)
    powers = torch.arange(first, degree + 1)
    unknowns = len(powers) + 1
    points = torch.linspace(low, high, _POINTS, dtype=torch.float64)
    angles = torch.pi * (2 * torch.arange(unknowns, dtype=torch.float64) + 1) / (2 * unknowns)
    extremes = (low + high) / 2 - (high - low) / 2 * angles.cos()
    signs = (-1.0) ** torch.arange(unknowns, dtype=torch.float64)
    for _ in range(_EXCHANGES):
        columns = [extremes**power / function(extremes) for power in powers.tolist()]
        left = 1 - held.sum() / function(extremes)
        solved = torch.linalg.solve(torch.stack((*columns, signs), dim=1), left)
        coefficients = torch.cat((held, solved[:-1]))
        error = evaluate(coefficients, points) / function(points) - 1
        extremes = points[_alternating_extremes(error, unknowns)]
    return Polynomial(coefficients, error.abs().max().item())


def evaluate(coefficients: Tensor, x: Tensor) -> Tensor:
    """Return the polynomial's values by Horner's scheme."""
    value = torch.zeros_like(x)
    for coefficient in coefficients.flip(0):
        value = value * x + coefficient
    return value


def _alternating_extremes(error: Tensor, wanted: int) -> list[int]:
    """Return where the error is largest between its zeros; surplus outermost ones are dropped."""
    zeros = (torch.diff(error.sign()) != 0).nonzero()[:, 0] + 1
    found, start = [], 0
    for part in torch.tensor_split(error.abs(), zeros.tolist()):
        found.append(start + int(part.argmax()))
        start += len(part)
    while len(found) > wanted:
        found.pop(0 if error[found[0]].abs() < error[found[-1]].abs() else -1)
    return found


def log1p_over(v: Tensor) -> Tensor:
    """Return log(1 + v) / v, which is 1 at 0."""
    return torch.where(v == 0, 1.0, torch.log1p(v) / torch.where(v == 0, 1.0, v))


def twice_atanh_over(v: Tensor) -> Tensor:
    """Return 2 atanh(sqrt(v)) / sqrt(v), which is 2 at 0."""
    root = v.sqrt()
    return torch.where(v == 0, 2.0, 2 * torch.atanh(root) / torch.where(v == 0, 1.0, root))


def polynomials() -> dict[str, Polynomial]:
    """Return the polynomials of csrc/vec_math.h, by `precision::name`."""
    half = math.log(2) / 2
    return {
        "Fine::exp": minimax(torch.exp, -half, half, 6),
        "Fine::exp_near_0": minimax(torch.exp, -half / 32, half / 32, 2),
        "Fine::atanh": minimax(twice_atanh_over, 0, 1 / 9, 4, constant=2),
        "Coarse::exp": minimax(torch.exp, -half, half, 3),
        "Coarse::log1p": minimax(log1p_over, 0, 1, 4, constant=1),
    }


def main() -> None:
    """Print every polynomial: its error, then its coefficients."""
    for name, found in polynomials().items():
        terms = ", ".join(f"{c:.8e}f" for c in found.coefficients.tolist())
        sys.stdout.write(f"{name}, relative error {found.error:.1e}: {terms}\n")


if __name__ == "__main__":
    main()
