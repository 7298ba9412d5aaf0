"""A 3x3 convolution over the cells of several maps, in plain torch."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor
from torch.nn import functional


def map_convolution(
    x: Tensor,
    sizes: Sequence[tuple[int, int]],
    weight: Tensor,
    bias: Tensor | None = None,
    relu: bool = False,
) -> Tensor:
    """Return the 3x3 convolution with padding 1 of each map: [B, cells, out].

    Args:
        x: [B, cells, in]; cells run through one map after the other, each row by row.
        sizes: rows and columns of each map.
        weight: [out, in, 3, 3].
        bias: [out], or None.
        relu: whether negative results become 0.
    """
    weight, bias = weight.to(x.dtype), None if bias is None else bias.to(x.dtype)
    made = [x.new_empty(len(x), 0, len(weight))]
    for cells, size in zip(torch.split(x, [r * c for r, c in sizes], dim=1), sizes, strict=True):
        if not size[0] * size[1]:
            continue
        maps = cells.reshape(len(x), *size, x.shape[2]).permute(0, 3, 1, 2)
        made.append(functional.conv2d(maps, weight, bias, padding=1).flatten(2).transpose(1, 2))
    y = torch.cat(made, dim=1)
    return y.relu() if relu else y
