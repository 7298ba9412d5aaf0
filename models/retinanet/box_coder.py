"""Boxes as offsets from anchors (Girshick et al. 2014, appendix C), all four weighted by 1."""

from __future__ import annotations

import torch
from torch import Tensor


def encode(boxes: Tensor, anchors: Tensor) -> Tensor:
    """Return the offsets [N, 4] of boxes [N, 4]: dx, dy in anchor sides, log of the side ratios."""
    centre, size = _centre_and_size(boxes)
    anchor_centre, anchor_size = _centre_and_size(anchors)
    shift = (centre - anchor_centre) / anchor_size
    return torch.cat((shift, torch.log(size / anchor_size)), dim=1)


def _centre_and_size(boxes: Tensor) -> tuple[Tensor, Tensor]:
    size = boxes[:, 2:] - boxes[:, :2]
    return boxes[:, :2] + 0.5 * size, size
