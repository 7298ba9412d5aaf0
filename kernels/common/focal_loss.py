"""The common parts of both focal losses.

The backward pass recomputes the gradient from the logits. That costs less than storing it: the
upstream gradient is known only then and would take a third pass, and only the logits are held in
between.
"""

from __future__ import annotations

from ctypes import c_double
from typing import Any

import torch
from torch import Tensor

from kernels.op import one_number, serves
from kernels.reference.focal_loss import Reduction

MAX_GAMMA = 32.0
"""Largest gamma for which the kernels' power function keeps its precision; plain torch is used
above."""


def serves_focal(logits: Tensor, gamma: float) -> bool:
    """Return whether the compiled library supports these logits and this gamma."""
    return 0 <= gamma <= MAX_GAMMA and serves(logits)


def keeps_each(reduction: Reduction) -> bool:
    """Return whether the loss of every element is wanted; raises ValueError for an unknown
    reduction."""
    if reduction not in ("none", "mean", "sum"):
        raise ValueError(f"reduction {reduction!r}: expected 'none', 'mean' or 'sum'")
    return reduction == "none"


def fake(logits: Tensor, *arguments: object) -> Tensor:
    """Return a loss's result without its values; the last argument is `keeps_each`."""
    each = arguments[-1]
    return logits.new_empty(logits.shape) if each else logits.new_empty((), dtype=torch.float32)


def fake_backward(grad: Tensor, logits: Tensor, *_: object) -> Tensor:
    """Return the gradient's shape and dtype without its values."""
    return logits.new_empty(logits.shape)


def results(logits: Tensor, each: bool) -> tuple[Tensor | None, c_double]:
    """Return the buffers for the losses, if wanted, and for their sum."""
    return (torch.empty(logits.shape, dtype=logits.dtype) if each else None), c_double()


def total_of(losses: Tensor | None, total: c_double) -> Tensor:
    """Return the losses, or their sum."""
    return torch.tensor(total.value, dtype=torch.float32) if losses is None else losses


def upstream_of(grad: Tensor, logits: Tensor) -> tuple[Tensor | None, float]:
    """Return the upstream gradient: a tensor, or one number for all elements."""
    if not logits.numel():
        return None, 0.0
    if one_number(grad, logits.shape):
        return None, grad.flatten()[0].item()
    return grad.to(logits.dtype).contiguous(), 1.0


def save(ctx: Any, inputs: tuple[Any, ...], output: Tensor) -> None:  # noqa: ANN401 - torch's
    """Save the tensors and settings of a loss for its gradient."""
    logits, targets, *ctx.settings, _ = inputs
    ctx.save_for_backward(logits, targets)
