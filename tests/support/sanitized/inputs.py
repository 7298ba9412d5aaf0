"""Inputs of the sanitizers' steps, and how a step calls the library."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

GAMMAS = (0.0, 0.5, 2.0)
GENERATOR = np.random.default_rng(0)

Numbers = NDArray[Any]
Call = Callable[..., int | None]
"""Calls a function by the first part of its name; arrays stand for their addresses.

`element=` overrides the type of elements.
"""

Step = Callable[[Call, str, int], None]
"""Runs an operator for one type of element on arrays of its exact size, or so many rows beyond."""


def numbers(count: int, element: str) -> Numbers:
    """Return random numbers, among them infinities and NaN; as bf16 any 16 bits will do."""
    if element == "bf16":
        return GENERATOR.integers(0, 2**16, count, dtype=np.uint16)
    found = GENERATOR.normal(0, 8, count).astype(np.float32)
    found[::7] = np.inf
    found[1::11] = np.nan
    return found


def floats(*shape: int) -> Numbers:
    """Return random fp32 numbers from 0 to 1."""
    return GENERATOR.random(shape, dtype=np.float32)


def boxes(count: int) -> Numbers:
    """Return boxes [N, 4] of which many overlap."""
    corner = floats(count, 2) * 20
    return np.concatenate((corner, corner + floats(count, 2) * 8 + 1), axis=1)


MAPS: tuple[list[tuple[int, int]], ...] = (
    [],
    [(0, 3)],
    [(1, 1)],
    [(2, 3), (1, 1)],
    [(9, 7), (4, 4), (1, 2)],
)
"""Rows and columns of maps."""
