"""Sigmoid focal loss in plain torch: the definition that faster kernels are tested against."""

from __future__ import annotations

from typing import Literal

import torch
from torch import Tensor
from torch.nn import functional

from kernels.reference.labels import check_integers

Reduction = Literal["none", "mean", "sum"]


def sigmoid_focal_loss(
    logits: Tensor,
    targets: Tensor,
    alpha: float = 0.25,
    gamma: float = 2.0,
    reduction: Reduction = "none",
) -> Tensor:
    """Return the focal loss of independent binary decisions (Lin et al. 2017, equation 5).

    With p = sigmoid(logit): FL = alpha_t * (1 - p_t)^gamma * BCE(logit, target).

    Args:
        logits: any shape.
        targets: the same shape and dtype, 0 or 1, or in between.
        alpha: weight of positives, 1 - alpha that of negatives; below 0 neither is weighted.
        gamma: focusing exponent, >= 0; below 1 the gradient is not finite where p_t rounds to 1.
        reduction: "none" keeps the shape, "mean" and "sum" give a scalar; else ValueError.
    """
    probability = logits.sigmoid()
    cross_entropy = functional.binary_cross_entropy_with_logits(logits, targets, reduction="none")
    agreement = probability * targets + (1 - probability) * (1 - targets)
    loss = cross_entropy * (1 - agreement) ** gamma
    if alpha >= 0:
        loss = (alpha * targets + (1 - alpha) * (1 - targets)) * loss
    return reduce(loss, reduction)


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
    background = check_labels(logits, labels, ignore_index, background)
    labels = labels.to(torch.int64)  # torch takes uint8 for a mask
    counted = labels != ignore_index
    chosen, classes = logits[counted], labels[counted]
    foreground = classes != background
    if ((classes < 0) & foreground).any():
        raise IndexError("labels: negative ones are neither background nor ignored")
    targets = torch.zeros_like(chosen)
    targets[foreground, classes[foreground]] = 1
    loss = sigmoid_focal_loss(chosen, targets, alpha, gamma)
    if reduction == "none":
        return torch.zeros_like(logits).index_put((counted,), loss)
    return reduce(loss, reduction, torch.promote_types(loss.dtype, torch.float32))


def check_labels(logits: Tensor, labels: Tensor, ignore_index: int, background: int | None) -> int:
    """Return the label of background; raises ValueError if shapes or labels don't fit."""
    if logits.dim() != 2 or labels.shape != logits.shape[:1]:
        raise ValueError(
            f"logits {list(logits.shape)}, labels {list(labels.shape)}: expected [N, C] and [N]"
        )
    check_integers(labels)
    background = logits.shape[1] if background is None else background
    if background == ignore_index:
        raise ValueError(f"label {background} can't mean both background and ignored")
    return background


def reduce(loss: Tensor, reduction: Reduction, dtype: torch.dtype | None = None) -> Tensor:
    """Return the loss reduced by `reduction`, summed in `dtype` if given."""
    match reduction:
        case "none":
            return loss
        case "mean":
            return loss.mean(dtype=dtype)
        case "sum":
            return loss.sum(dtype=dtype)
        case _:
            raise ValueError(f"reduction {reduction!r}: expected 'none', 'mean' or 'sum'")
