"""3x3 neighbourhoods of the cells of several maps, in plain torch."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor
from torch.nn import functional


def unfold_maps(x: Tensor, sizes: Sequence[tuple[int, int]]) -> Tensor:
    """Return [B, cells, 9, C]: each cell's neighbours, row by row; 0 where its map has none.

    Args:
        x: [B, cells, C]; cells run through one map after the other, each row by row.
        sizes: rows and columns of each map.
    """
    parts = torch.split(x, [rows * columns for rows, columns in sizes], dim=1)
    return torch.cat([_of_map(part, *size) for part, size in zip(parts, sizes, strict=True)], dim=1)


def fold_maps(neighbours: Tensor, sizes: Sequence[tuple[int, int]]) -> Tensor:
    """Return [B, cells, C], the gradient of x where that of `unfold_maps` is [B, cells, 9, C].

    Sums are fp32, or float64 if the neighbours are.
    """
    parts = torch.split(neighbours, [rows * columns for rows, columns in sizes], dim=1)
    folded = [_fold_map(part, *size) for part, size in zip(parts, sizes, strict=True)]
    return torch.cat(folded, dim=1)


def _of_map(x: Tensor, rows: int, columns: int) -> Tensor:
    around = functional.pad(x.reshape(len(x), rows, columns, x.shape[2]), (0, 0, 1, 1, 1, 1))
    taps = [
        around[:, down : down + rows, right : right + columns].flatten(1, 2)
        for down in range(3)
        for right in range(3)
    ]
    return torch.stack(taps, dim=2)


def _fold_map(neighbours: Tensor, rows: int, columns: int) -> Tensor:
    images, cells, _, channels = neighbours.shape
    taps = neighbours.reshape(images, rows, columns, 9, channels)
    sums_in = torch.promote_types(neighbours.dtype, torch.float32)
    around = taps.new_zeros((images, rows + 2, columns + 2, channels), dtype=sums_in)
    for tap in range(9):
        down, right = divmod(tap, 3)
        around[:, down : down + rows, right : right + columns] += taps[..., tap, :]
    return around[:, 1:-1, 1:-1].reshape(images, cells, channels).to(neighbours.dtype)
