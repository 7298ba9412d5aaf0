"""Boxes as offsets from anchors (Girshick et al. 2014, appendix C), all four weighted by 1."""

from __future__ import annotations

import math

import torch
from torch import Tensor

MAX_LOG_SCALE = math.log(1000 / 16)
"""Decoded sides are at most 62.5 times the anchor's: keeps exp within bounds."""


def encode(boxes: Tensor, anchors: Tensor) -> Tensor:
    """Return the offsets [N, 4] of boxes [N, 4]: dx, dy in anchor sides, log of the side ratios."""
    centre, size = _centre_and_size(boxes)
    anchor_centre, anchor_size = _centre_and_size(anchors)
    shift = (centre - anchor_centre) / anchor_size
    return torch.cat((shift, torch.log(size / anchor_size)), dim=1)


def decode(offsets: Tensor, anchors: Tensor) -> Tensor:
    """Return the boxes [N, 4] that offsets [N, 4] mean; the inverse of `encode`."""
    anchor_centre, anchor_size = _centre_and_size(anchors)
    centre = anchor_centre + offsets[:, :2] * anchor_size
    half = 0.5 * anchor_size * offsets[:, 2:].clamp(max=MAX_LOG_SCALE).exp()
    return torch.cat((centre - half, centre + half), dim=1)


def _centre_and_size(boxes: Tensor) -> tuple[Tensor, Tensor]:
    size = boxes[:, 2:] - boxes[:, :2]
    return boxes[:, :2] + 0.5 * size, size
