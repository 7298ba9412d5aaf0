"""Transposition in plain torch."""

from __future__ import annotations

from torch import Tensor


def transpose(x: Tensor) -> Tensor:
    """Return x [M, N] as a contiguous [N, M]."""
    return x.t().contiguous()
