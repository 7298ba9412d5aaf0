"""Batch norm with fixed statistics in plain torch, with residual and ReLU."""

from __future__ import annotations

import torch
from torch import Tensor


def frozen_batch_norm(
    x: Tensor, scale: Tensor, shift: Tensor, residual: Tensor | None = None, relu: bool = False
) -> Tensor:
    """Return x * scale + shift for each channel, + residual, then max(·, 0); keeps x's dtype.

    It is computed in the wider dtype of x and residual.

    Args:
        x: [N, C, …].
        scale: [C]: weight / sqrt(running variance + eps) of the batch norm.
        shift: [C]: bias - running mean * scale.
        residual: of x's shape, or None.
        relu: whether negative results become 0.
    """
    dtype = x.dtype if residual is None else torch.promote_types(x.dtype, residual.dtype)
    shape = (-1, *[1] * (x.dim() - 2))
    y = x.to(dtype) * scale.to(dtype).reshape(shape) + shift.to(dtype).reshape(shape)
    if residual is not None:
        y = y + residual
    return (y.relu() if relu else y).to(x.dtype)
