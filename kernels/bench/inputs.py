"""Inputs that several cases share."""

from __future__ import annotations

import torch
from torch import Tensor

from kernels.bench.case import DTYPES

IOU, CANDIDATES = 0.5, 5000
"""IoU threshold and number of candidates for both cases of suppression."""

IMAGES, CHANNELS = 2, 256
MAPS = [(32, 32), (16, 16), (8, 8), (4, 4), (2, 2)]
CELLS = sum(rows * columns for rows, columns in MAPS)
"""Cells of the maps of RetinaNet's heads at 256 px, batch 2."""

FOLD_ERROR = {"fp32": 1e-6, "bf16": 2.0**-8}
"""A sum of nine in fp32, rounded to the dtype, relative to the largest value."""


def some_boxes(count: int, seed: int) -> Tensor:
    """Return boxes [count, 4] with sides of 8 to 300 pixels, most of them in an 800 px image."""
    generator = torch.Generator().manual_seed(seed)
    centre = torch.rand(count, 2, generator=generator) * 800
    half = torch.rand(count, 2, generator=generator) * 146 + 4
    return torch.cat((centre - half, centre + half), dim=1)


def some_scores(count: int) -> Tensor:
    """Return scores [count] from 0 to 1."""
    return torch.rand(count, generator=torch.Generator().manual_seed(7))


def some_numbers(dtype: str, *shape: int) -> Tensor:
    """Return normally distributed numbers."""
    generator = torch.Generator().manual_seed(len(shape))
    return torch.randn(shape, generator=generator).to(DTYPES[dtype])
