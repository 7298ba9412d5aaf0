"""The common parts of operators on cells of several maps."""

from __future__ import annotations

import torch
from torch import Tensor

from kernels.op import call

TAPS = 9
"""The cells of a 3x3 neighbourhood."""


def call_on_maps(name: str, given: Tensor, sizes: list[int], made: Tensor, channels: int) -> None:
    """Call a function of the library; `sizes` has rows and columns of each map in turn."""
    of_maps = torch.tensor(sizes, dtype=torch.int64)
    call(name, given.dtype, given, of_maps, len(sizes) // 2, len(given), channels, made)
