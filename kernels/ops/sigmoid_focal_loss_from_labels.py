"""Sigmoid focal loss of class ids in one pass over the logits, and its gradient in another."""

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
from kernels.op import Op, TorchOp, call, on_cpu, once_differentiable, register
from kernels.reference import focal_loss as reference
from kernels.reference.focal_loss import Reduction


def sigmoid_focal_loss_from_labels(
    logits: Tensor,
    labels: Tensor,
    alpha: float = 0.25,
    gamma: float = 2.0,
    reduction: Reduction = "sum",
    ignore_index: int = -1,
    background: int | None = None,
) -> Tensor:
    """Return the focal loss of rows with one class, without a class, or to be ignored.

    Equals `sigmoid_focal_loss` with one-hot targets over the rows that count, without building the
    targets. fp32 and bf16 on a CPU run compiled, all else in plain torch.

    Args:
        logits: [N, C].
        labels: [N] integers: a class from 0 to C - 1, `background` or `ignore_index`.
        alpha: as in `sigmoid_focal_loss`.
        gamma: as in `sigmoid_focal_loss`.
        reduction: "none" gives [N, C] with 0 in ignored rows; "sum" and "mean" are over the other
            rows, and in fp32 if the logits have less.
        ignore_index: label of rows left out.
        background: label of rows without a class; C if not given.

    Raises:
        IndexError: a label is none of these.
        ValueError: shapes don't fit, labels are no integers, or `background` is `ignore_index`.
    """
    if not (serves_focal(logits, gamma) and on_cpu(labels)):
        return reference.sigmoid_focal_loss_from_labels(
            logits, labels, alpha, gamma, reduction, ignore_index, background
        )
    background = reference.check_labels(logits, labels, ignore_index, background)
    labels = labels.to(torch.int64)  # in which -1 is no class; in uint8 it is 255
    each = keeps_each(reduction)
    loss: Tensor = torch.ops.benchfarm.sigmoid_focal_loss_from_labels(
        logits, labels, alpha, gamma, background, ignore_index, each
    )
    if reduction == "mean":
        return loss / ((labels != ignore_index).sum() * logits.shape[1])
    return loss


def _forward(
    logits: Tensor,
    labels: Tensor,
    alpha: float,
    gamma: float,
    background: int,
    ignore_index: int,
    each: bool,
) -> Tensor:
    logits, labels = logits.contiguous(), labels.contiguous()
    losses, total = results(logits, each)
    wrong = call(
        "sigmoid_focal_loss_from_labels_forward",
        logits.dtype,
        logits,
        labels,
        *logits.shape,
        background,
        ignore_index,
        alpha,
        gamma,
        losses,
        byref(total),
    )
    if wrong is not None and wrong >= 0:
        raise IndexError(
            f"label {labels[wrong].item()} of row {wrong}: expected a class from 0 to "
            f"{logits.shape[1] - 1}, background {background} or ignore_index {ignore_index}"
        )
    return total_of(losses, total)


def _backward(
    grad: Tensor,
    logits: Tensor,
    labels: Tensor,
    alpha: float,
    gamma: float,
    background: int,
    ignore_index: int,
) -> Tensor:
    logits, labels = logits.contiguous(), labels.contiguous()
    upstream, scale = upstream_of(grad, logits)
    grad_logits = torch.empty(logits.shape, dtype=logits.dtype)
    call(
        "sigmoid_focal_loss_from_labels_backward",
        logits.dtype,
        logits,
        labels,
        *logits.shape,
        background,
        ignore_index,
        alpha,
        gamma,
        upstream,
        scale,
        grad_logits,
    )
    return grad_logits


def _differentiate(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:  # noqa: ANN401
    backward = torch.ops.benchfarm.sigmoid_focal_loss_from_labels_backward
    grad_logits = backward(grad, *ctx.saved_tensors, *ctx.settings)
    return grad_logits, *(None,) * (len(ctx.settings) + 2)


_INPUTS = "Tensor logits, Tensor labels, float alpha, float gamma, int background, int ignore_index"
OP = register(
    Op(
        dtypes=("fp32", "bf16"),
        reference=reference.sigmoid_focal_loss_from_labels,
        torch_ops=(
            TorchOp(
                f"sigmoid_focal_loss_from_labels({_INPUTS}, bool each) -> Tensor",
                _forward,
                fake,
                _differentiate,
                save,
            ),
            TorchOp(
                f"sigmoid_focal_loss_from_labels_backward(Tensor grad, {_INPUTS}) -> Tensor",
                _backward,
                fake_backward,
                once_differentiable,
            ),
        ),
    )
)
