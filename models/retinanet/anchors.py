"""Anchors of RetinaNet: nine boxes around every cell of every pyramid level."""

from __future__ import annotations

import torch
from torch import Tensor

STRIDES = (8, 16, 32, 64, 128)
"""Pixels per cell of P3 to P7, for an image whose sides they divide."""

SIZES = tuple(
    (side, int(side * 2 ** (1 / 3)), int(side * 2 ** (2 / 3))) for side in (32, 64, 128, 256, 512)
)
"""Square roots of the anchor areas of each level, truncated to whole pixels as in the reference."""

ASPECT_RATIOS = (0.5, 1.0, 2.0)
"""Height over width."""

ANCHORS_PER_CELL = 9


def grid_shapes(height: int, width: int) -> list[tuple[int, int]]:
    """Return rows and columns of P3 to P7; every halving rounds up."""
    return [(-(-height // stride), -(-width // stride)) for stride in STRIDES]


def cell_anchors(sizes: tuple[int, ...]) -> Tensor:
    """Return the anchors [9, 4] around (0, 0), by ratio and then size, rounded to pixels."""
    heights_per_size = torch.tensor(ASPECT_RATIOS).sqrt()[:, None]
    size = torch.tensor(sizes, dtype=torch.float32)
    height = (heights_per_size * size).flatten()
    width = (1 / heights_per_size * size).flatten()
    return (torch.stack((-width, -height, width, height), dim=1) / 2).round()


def anchors_by_level(height: int, width: int) -> list[Tensor]:
    """Return the anchors [A_l, 4] of P3 to P7 for an image, row by row, then cell by cell.

    Cells lie whole pixels apart: the image's side over the grid's, rounded down.
    """
    return [
        _grid_anchors(rows, columns, (height // rows, width // columns), cell_anchors(sizes))
        for (rows, columns), sizes in zip(grid_shapes(height, width), SIZES, strict=True)
    ]


def _grid_anchors(rows: int, columns: int, spacing: tuple[int, int], cell: Tensor) -> Tensor:
    y, x = torch.meshgrid(
        torch.arange(rows) * spacing[0], torch.arange(columns) * spacing[1], indexing="ij"
    )
    centres = torch.stack((x, y, x, y), dim=-1).reshape(-1, 1, 4)
    return (centres + cell).reshape(-1, 4)
