"""Sigmoid focal loss in one pass over the logits, and its gradient in another."""

from __future__ import annotations

from ctypes import byref
from typing import Any

import torch
from torch import Tensor

from kernels.common.focal_loss import (
    fake,
    fake_backward,
    keeps_each,
    results,
    save,
    serves_focal,
    total_of,
    upstream_of,
)
from kernels.op import Op, TorchOp, call, once_differentiable, register, serves
from kernels.reference import focal_loss as reference
from kernels.reference.focal_loss import Reduction


def sigmoid_focal_loss(
    logits: Tensor,
    targets: Tensor,
    alpha: float = 0.25,
    gamma: float = 2.0,
    reduction: Reduction = "none",
) -> Tensor:
    """Return the focal loss of independent binary decisions (Lin et al. 2017, equation 5).

    Compatible with torchvision's function of this name. fp32 and bf16 on a CPU run compiled; other
    dtypes, devices and targets that require a gradient run in plain torch.

    Args:
        logits: any shape.
        targets: the same shape, 0 to 1.
        alpha: weight of positives, 1 - alpha that of negatives; below 0 neither is weighted.
        gamma: focusing exponent, >= 0.
        reduction: "none" keeps the shape, "mean" and "sum" give a scalar, in the logits' dtype.

    Raises:
        ValueError: shapes differ, or the reduction is none of the three.
    """
    if not (serves_focal(logits, gamma) and serves(targets)) or targets.requires_grad:
        return reference.sigmoid_focal_loss(logits, targets, alpha, gamma, reduction)
    if logits.shape != targets.shape:
        raise ValueError(f"logits {list(logits.shape)}, targets {list(targets.shape)}: must agree")
    dtype = torch.promote_types(logits.dtype, targets.dtype)
    each = keeps_each(reduction)
    loss: Tensor = torch.ops.benchfarm.sigmoid_focal_loss(
        logits.to(dtype), targets.to(dtype), alpha, gamma, each
    )
    return (loss / logits.numel() if reduction == "mean" else loss).to(dtype)


def _forward(logits: Tensor, targets: Tensor, alpha: float, gamma: float, each: bool) -> Tensor:
    logits, targets = logits.contiguous(), targets.contiguous()
    losses, total = results(logits, each)
    call(
        "sigmoid_focal_loss_forward",
        logits.dtype,
        logits,
        targets,
        logits.numel(),
        alpha,
        gamma,
        losses,
        byref(total),
    )
    return total_of(losses, total)


def _backward(grad: Tensor, logits: Tensor, targets: Tensor, alpha: float, gamma: float) -> Tensor:
    logits, targets = logits.contiguous(), targets.contiguous()
    upstream, scale = upstream_of(grad, logits)
    grad_logits = torch.empty(logits.shape, dtype=logits.dtype)
    call(
        "sigmoid_focal_loss_backward",
        logits.dtype,
        logits,
        targets,
        logits.numel(),
        alpha,
        gamma,
        upstream,
        scale,
        grad_logits,
    )
    return grad_logits


def _differentiate(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:  # noqa: ANN401
    backward = torch.ops.benchfarm.sigmoid_focal_loss_backward
    grad_logits = backward(grad, *ctx.saved_tensors, *ctx.settings)
    return grad_logits, *(None,) * (len(ctx.settings) + 2)


_INPUTS = "Tensor logits, Tensor targets, float alpha, float gamma"
OP = register(
    Op(
        dtypes=("fp32", "bf16"),
        reference=reference.sigmoid_focal_loss,
        torch_ops=(
            TorchOp(
                f"sigmoid_focal_loss({_INPUTS}, bool each) -> Tensor",
                _forward,
                fake,
                _differentiate,
                save,
            ),
            TorchOp(
                f"sigmoid_focal_loss_backward(Tensor grad, {_INPUTS}) -> Tensor",
                _backward,
                fake_backward,
                once_differentiable,
            ),
        ),
    )
)
