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
    """Return [B, cells, C], the gradient of x where that of `unfold_maps` is [B, cells, 9, C]."""
    x = neighbours.new_zeros((*neighbours.shape[:2], neighbours.shape[3]), requires_grad=True)
    with torch.enable_grad():
        (folded,) = torch.autograd.grad(unfold_maps(x, sizes), x, neighbours)
    return folded


def _of_map(x: Tensor, rows: int, columns: int) -> Tensor:
    around = functional.pad(x.reshape(len(x), rows, columns, x.shape[2]), (0, 0, 1, 1, 1, 1))
    taps = [
        around[:, down : down + rows, right : right + columns].flatten(1, 2)
        for down in range(3)
        for right in range(3)
    ]
    return torch.stack(taps, dim=2)
