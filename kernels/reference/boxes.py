"""Box operators in plain torch; every box is (x1, y1, x2, y2) in pixels."""

from __future__ import annotations

import torch
from torch import Tensor

BACKGROUND = -1
"""Match of an anchor whose best IoU is below the low threshold."""

IGNORED = -2
"""Match of an anchor whose best IoU lies between the thresholds."""


def box_area(boxes: Tensor) -> Tensor:
    """Return the areas [N] of boxes [N, 4]."""
    return (boxes[:, 2] - boxes[:, 0]) * (boxes[:, 3] - boxes[:, 1])


def box_iou(a: Tensor, b: Tensor) -> Tensor:
    """Return the intersection over union [N, M] of each box of a [N, 4] with each of b [M, 4].

    Two boxes without area give 0 / 0 = NaN, which compares as no overlap.
    """
    top_left = torch.maximum(a[:, None, :2], b[:, :2])
    bottom_right = torch.minimum(a[:, None, 2:], b[:, 2:])
    width, height = (bottom_right - top_left).clamp(min=0).unbind(-1)
    intersection = width * height
    return intersection / (box_area(a)[:, None] + box_area(b) - intersection)


def nms(boxes: Tensor, scores: Tensor, iou_threshold: float) -> Tensor:
    """Return the indices [K] that greedy non-maximum suppression keeps, best score first.

    A box [N, 4] is dropped if its IoU with a kept box of a higher score [N] is above the threshold;
    of equal scores the lower index counts as the higher score.
    """
    remaining = scores.argsort(descending=True, stable=True)
    kept = [remaining[:0]]
    while remaining.numel():
        best, rest = remaining[:1], remaining[1:]
        kept.append(best)
        suppressed = box_iou(boxes[best], boxes[rest])[0] > iou_threshold
        remaining = rest[~suppressed]
    return torch.cat(kept)


def batched_nms(boxes: Tensor, scores: Tensor, labels: Tensor, iou_threshold: float) -> Tensor:
    """Return the indices [K] kept by `nms` within each label [N], best score first.

    Works label by label, since shifting each label's boxes apart would cost fp32 bits.
    """
    kept = torch.zeros_like(labels, dtype=torch.bool)
    for label in torch.unique(labels):
        members = (labels == label).nonzero()[:, 0]
        kept[members[nms(boxes[members], scores[members], iou_threshold)]] = True
    indices = kept.nonzero()[:, 0]
    return indices[scores[indices].argsort(descending=True, stable=True)]


def box_match(
    anchors: Tensor, boxes: Tensor, high: float, low: float, allow_low_quality: bool
) -> Tensor:
    """Return for each anchor the index of its ground-truth box, BACKGROUND or IGNORED; int64 [A].

    An anchor [A, 4] takes the box [G, 4] of its highest IoU (the first one of a tie) if that IoU
    is at least `high`; below `low` it is background, between them ignored. Without boxes all
    anchors are background. The boxes need a positive area.

    With `allow_low_quality`, each box also makes the anchors of *its* highest IoU (all of a tie)
    take their own best box, however low that IoU is (Ren et al. 2015, section 3.1.2). A box apart
    from every anchor ties with all of them at IoU 0; the definition leaves that so.
    """
    if boxes.shape[0] == 0:
        return torch.full((anchors.shape[0],), BACKGROUND, device=anchors.device)
    iou = box_iou(boxes, anchors)
    best_iou, best_box = iou.max(dim=0)
    matches = best_box.masked_fill(best_iou < high, IGNORED)
    matches = matches.masked_fill(best_iou < low, BACKGROUND)
    if allow_low_quality:
        best_of_a_box = (iou == iou.amax(dim=1, keepdim=True)).any(dim=0)
        matches = torch.where(best_of_a_box, best_box, matches)
    return matches
