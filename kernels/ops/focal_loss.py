"""Sigmoid focal loss in one pass over the logits, and its gradient in another.

The gradient is computed anew from the logits when the backward pass asks for it: that costs less
than to keep it, because the upstream gradient is only known then and would take a third pass, and
nothing but the logits is held in between.
"""

from __future__ import annotations

from ctypes import byref, c_double
from typing import Any

import torch
from torch import Tensor

from kernels.ops.registry import (
    call,
    define,
    differentiate,
    once_differentiable,
    one_number,
    serves,
)
from kernels.reference import focal_loss as reference
from kernels.reference.focal_loss import Reduction

MAX_GAMMA = 32.0
"""Up to here the kernels' power function holds its precision; plain torch serves what is above."""


def sigmoid_focal_loss(
    logits: Tensor,
    targets: Tensor,
    alpha: float = 0.25,
    gamma: float = 2.0,
    reduction: Reduction = "none",
) -> Tensor:
    """Return the focal loss of independent binary decisions (Lin et al. 2017, equation 5).

    Takes what torchvision's function of this name does, and gives what it gives. fp32 and bf16 on a
    CPU run compiled; other dtypes, devices and targets that want a gradient run in plain torch.

    Args:
        logits: any shape.
        targets: the same shape, 0 to 1.
        alpha: weight of positives, 1 - alpha that of negatives; below 0 neither is weighted.
        gamma: focusing exponent, >= 0.
        reduction: "none" keeps the shape, "mean" and "sum" give a scalar, in the logits' dtype.

    Raises:
        ValueError: shapes differ, or the reduction is none of the three.
    """
    if not (_serves(logits, gamma) and serves(targets)) or targets.requires_grad:
        return reference.sigmoid_focal_loss(logits, targets, alpha, gamma, reduction)
    if logits.shape != targets.shape:
        raise ValueError(f"logits {list(logits.shape)}, targets {list(targets.shape)}: must agree")
    dtype = torch.promote_types(logits.dtype, targets.dtype)
    each = _each(reduction)
    loss: Tensor = torch.ops.benchfarm.focal_dense(
        logits.to(dtype), targets.to(dtype), alpha, gamma, each
    )
    return (loss / logits.numel() if reduction == "mean" else loss).to(dtype)


def sigmoid_focal_loss_from_labels(
    logits: Tensor,
    labels: Tensor,
    alpha: float = 0.25,
    gamma: float = 2.0,
    reduction: Reduction = "sum",
    ignore_index: int = -1,
    background: int | None = None,
) -> Tensor:
    """Return the focal loss of rows that have one class each, or none, or don't count.

    The same as `sigmoid_focal_loss` of the one-hot targets of the rows that count, without making
    either. fp32 and bf16 on a CPU run compiled, all else in plain torch.

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
    if not _serves(logits, gamma):
        return reference.sigmoid_focal_loss_from_labels(
            logits, labels, alpha, gamma, reduction, ignore_index, background
        )
    background = reference.check_labels(logits, labels, ignore_index, background)
    each = _each(reduction)
    loss: Tensor = torch.ops.benchfarm.focal_labels(
        logits, labels.to(torch.int64), alpha, gamma, background, ignore_index, each
    )
    if reduction == "mean":
        return loss / ((labels != ignore_index).sum() * logits.shape[1])
    return loss


def _serves(logits: Tensor, gamma: float) -> bool:
    return 0 <= gamma <= MAX_GAMMA and serves(logits)


def _each(reduction: Reduction) -> bool:
    if reduction not in ("none", "mean", "sum"):
        raise ValueError(f"reduction {reduction!r}: expected 'none', 'mean' or 'sum'")
    return reduction == "none"


def _fake(logits: Tensor, *arguments: object) -> Tensor:
    each = arguments[-1]
    return logits.new_empty(logits.shape) if each else logits.new_empty((), dtype=torch.float32)


def _fake_backward(grad: Tensor, logits: Tensor, *_: object) -> Tensor:
    return logits.new_empty(logits.shape)


def _results(logits: Tensor, each: bool) -> tuple[Tensor | None, c_double]:
    return (torch.empty(logits.shape, dtype=logits.dtype) if each else None), c_double()


def _total(losses: Tensor | None, total: c_double) -> Tensor:
    return torch.tensor(total.value, dtype=torch.float32) if losses is None else losses


def _upstream(grad: Tensor, logits: Tensor) -> tuple[Tensor | None, float]:
    """Return the upstream gradient: of every element, or one number for all."""
    if not logits.numel():
        return None, 0.0
    if one_number(grad, logits.shape):
        return None, grad.flatten()[0].item()
    return grad.to(logits.dtype).contiguous(), 1.0


def _dense(logits: Tensor, targets: Tensor, alpha: float, gamma: float, each: bool) -> Tensor:
    logits, targets = logits.contiguous(), targets.contiguous()
    losses, total = _results(logits, each)
    call(
        "focal_dense_forward",
        logits.dtype,
        logits,
        targets,
        logits.numel(),
        alpha,
        gamma,
        losses,
        byref(total),
    )
    return _total(losses, total)


def _dense_backward(
    grad: Tensor, logits: Tensor, targets: Tensor, alpha: float, gamma: float
) -> Tensor:
    logits, targets = logits.contiguous(), targets.contiguous()
    upstream, scale = _upstream(grad, logits)
    slopes = torch.empty(logits.shape, dtype=logits.dtype)
    call(
        "focal_dense_backward",
        logits.dtype,
        logits,
        targets,
        logits.numel(),
        alpha,
        gamma,
        upstream,
        scale,
        slopes,
    )
    return slopes


def _labels(
    logits: Tensor,
    labels: Tensor,
    alpha: float,
    gamma: float,
    background: int,
    ignore_index: int,
    each: bool,
) -> Tensor:
    logits, labels = logits.contiguous(), labels.contiguous()
    losses, total = _results(logits, each)
    wrong = call(
        "focal_labels_forward",
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
    return _total(losses, total)


def _labels_backward(
    grad: Tensor,
    logits: Tensor,
    labels: Tensor,
    alpha: float,
    gamma: float,
    background: int,
    ignore_index: int,
) -> Tensor:
    logits, labels = logits.contiguous(), labels.contiguous()
    upstream, scale = _upstream(grad, logits)
    slopes = torch.empty(logits.shape, dtype=logits.dtype)
    call(
        "focal_labels_backward",
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
        slopes,
    )
    return slopes


def _save(ctx: Any, inputs: tuple[Any, ...], output: Tensor) -> None:  # noqa: ANN401 - torch's
    logits, targets, *ctx.settings, _ = inputs
    ctx.save_for_backward(logits, targets)


def _backward_of(name: str, arguments: int) -> Any:  # noqa: ANN401 - as torch wants it
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:  # noqa: ANN401
        operator = getattr(torch.ops.benchfarm, name)
        slopes = operator(grad, *ctx.saved_tensors, *ctx.settings)
        return slopes, *(None,) * (arguments - 1)

    return backward


_SETTINGS = {
    "focal_dense": "float alpha, float gamma",
    "focal_labels": "float alpha, float gamma, int background, int ignore_index",
}
for _name, _forward, _backward in (
    ("focal_dense", _dense, _dense_backward),
    ("focal_labels", _labels, _labels_backward),
):
    _inputs = f"Tensor logits, Tensor targets, {_SETTINGS[_name]}"
    define(f"{_name}({_inputs}, bool each) -> Tensor", _forward, _fake)
    define(f"{_name}_backward(Tensor grad, {_inputs}) -> Tensor", _backward, _fake_backward)
    differentiate(_name, _backward_of(f"{_name}_backward", _inputs.count(",") + 2), _save)
    differentiate(f"{_name}_backward", once_differentiable)
