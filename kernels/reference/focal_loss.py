"""Sigmoid focal loss in plain torch: the definition every faster kernel is tested against."""

from __future__ import annotations

from typing import Literal

from torch import Tensor
from torch.nn import functional

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
        targets: the same shape and dtype, 0 or 1.
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
    return _reduce(loss, reduction)


def _reduce(loss: Tensor, reduction: Reduction) -> Tensor:
    match reduction:
        case "none":
            return loss
        case "mean":
            return loss.mean()
        case "sum":
            return loss.sum()
        case _:
            raise ValueError(f"reduction {reduction!r}: expected 'none', 'mean' or 'sum'")
