"""Batch norm with fixed statistics in plain torch, with residual and ReLU."""

from __future__ import annotations

from torch import Tensor


def frozen_batch_norm(
    x: Tensor, scale: Tensor, shift: Tensor, residual: Tensor | None = None, relu: bool = False
) -> Tensor:
    """Return x * scale + shift for each channel, + residual, then max(·, 0); keeps x's dtype.

    Args:
        x: [N, C, …].
        scale: [C]: weight / sqrt(running variance + eps) of the batch norm.
        shift: [C]: bias - running mean * scale.
        residual: of x's shape, or None.
        relu: whether negative results become 0.
    """
    shape = (-1, *[1] * (x.dim() - 2))
    y = x * scale.to(x.dtype).reshape(shape) + shift.to(x.dtype).reshape(shape)
    if residual is not None:
        y = y + residual
    return y.relu() if relu else y
