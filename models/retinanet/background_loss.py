"""The focal loss of all-negative decisions, with an explicit gradient.

Almost all decisions of a detector are negative: of 12,276 anchors times 264 classes at 256 px, a
few dozen are positive. gamma is 2, as in RetinaNet. With p = sigmoid(x) and s = softplus(x) =
-log(1 - p): loss = (1 - alpha) p^2 s, and its derivative is (1 - alpha) p^2 (p + 2 (1 - p) s).
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable
from torch.nn import functional


def background_focal_loss(
    logits: Tensor, counted: Tensor, positives: tuple[Tensor, Tensor], alpha: float
) -> Tensor:
    """Return the sum in fp32 over logits [A, C] of any float dtype, of the rows that count.

    Args:
        logits: of decisions that should be negative.
        counted: bool [A].
        positives: rows and columns, int64 [F] each, of decisions that are left out.
        alpha: weight of positives; negatives weigh 1 - alpha.
    """
    loss: Tensor = _Background.apply(logits, counted, positives, 1 - alpha)  # type: ignore[no-untyped-call]
    return loss


class _Background(torch.autograd.Function):
    """Computes the derivative in the forward pass, in place, from intermediates of the loss."""

    @staticmethod
    def forward(
        ctx: Any,  # noqa: ANN401 - torch's own
        logits: Tensor,
        counted: Tensor,
        positives: tuple[Tensor, Tensor],
        weight: float,
    ) -> Tensor:
        x = logits.float()
        p, s = x.sigmoid(), functional.softplus(x)
        ignored = ~counted
        p[ignored] = s[ignored] = 0  # not multiplied by 0: infinity times 0 is no number
        square = p.square()
        square[positives] = 0
        # p + 2 (1 - p) s = p + 2 s - 2 p s
        slope = torch.addcmul(p.add(s, alpha=2), p, s, value=-2).mul_(square)
        loss = s.mul_(square).sum() * weight
        ctx.save_for_backward(slope)
        ctx.weight, ctx.dtype = weight, logits.dtype
        return loss

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: Tensor) -> Any:  # noqa: ANN401 - torch's own
        (slope,) = ctx.saved_tensors
        return (slope * (gradient * ctx.weight)).to(ctx.dtype), None, None, None
