"""Focal loss in float64 by formulas that cancel nothing: what is right to the last bits of fp32."""

from __future__ import annotations

import torch
from torch import Tensor


def true_loss(logits: Tensor, targets: Tensor, alpha: float = 0.25, gamma: float = 2.0) -> Tensor:
    """Return the loss of each decision, float64."""
    x, y = logits.double(), targets.double()
    p, q = x.sigmoid(), (-x).sigmoid()
    return _weight(y, alpha) * (y * q + (1 - y) * p) ** gamma * _cross_entropy(x, y)


def true_slope(logits: Tensor, targets: Tensor, alpha: float = 0.25, gamma: float = 2.0) -> Tensor:
    """Return the loss's derivative by each logit, float64."""
    x, y = logits.double(), targets.double()
    p, q = x.sigmoid(), (-x).sigmoid()
    miss, error = y * q + (1 - y) * p, (1 - y) * p - y * q
    share = torch.where(miss > 0, p * q / miss, 1 - miss)  # 0 / 0 where a hard target is met
    focus = gamma * (1 - 2 * y) * share * _cross_entropy(x, y)
    return _weight(y, alpha) * miss**gamma * (focus + error)


def _weight(y: Tensor, alpha: float) -> Tensor:
    return alpha * y + (1 - alpha) * (1 - y) if alpha >= 0 else torch.ones_like(y)


def _cross_entropy(x: Tensor, y: Tensor) -> Tensor:
    beyond = torch.log1p(torch.exp(-x.abs()))
    return (1 - y) * x.clamp(min=0) + y * (-x).clamp(min=0) + beyond
