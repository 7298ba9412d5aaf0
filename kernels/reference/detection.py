"""Detections from the outputs of a RetinaNet-style detector, in plain torch."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

import torch
from torch import Tensor

from kernels.reference.boxes import batched_nms

MAX_LOG_SCALE = math.log(1000 / 16)
"""Largest log of a decoded side relative to the anchor's (62.5 times), which bounds exp."""


class Detections(NamedTuple):
    """The detections in one image, best score first."""

    boxes: Tensor
    """[K, 4] in pixels, cut to the image."""

    scores: Tensor
    """[K]."""

    labels: Tensor
    """[K] int64."""


@torch.no_grad()
def detection_postprocess(
    cls_logits: Tensor,
    bbox_regression: Tensor,
    anchors: Tensor,
    level_sizes: Sequence[int],
    image_shape: tuple[int, int],
    score_threshold: float = 0.05,
    candidates_per_level: int = 1000,
    iou_threshold: float = 0.5,
    detections: int = 300,
) -> Detections:
    """Return the detections in one image (Lin et al. 2017, section 4, "Inference").

    Of each pyramid level the best (anchor, class) pairs above a score are decoded, cut to the
    image, and suppressed within each class; the best of what is left are returned. Equal scores
    come in any order.

    Args:
        cls_logits: [A, C], any float dtype; scores are their sigmoids in fp32.
        bbox_regression: [A, 4], offsets from the anchors (Girshick et al. 2014, appendix C).
        anchors: [A, 4] in pixels, level by level.
        level_sizes: anchors of each level; A together.
        image_shape: height and width in pixels.
        score_threshold: candidates score more than this.
        candidates_per_level: the most pairs of a level that are looked at.
        iou_threshold: of two boxes of a class that overlap by more, the better one stays.
        detections: the most that are returned.
    """
    sizes = list(level_sizes)
    parts = (cls_logits.float(), bbox_regression.float(), anchors)
    levels = zip(*(torch.split(part, sizes) for part in parts), strict=True)
    found = [
        _candidates(logits, offsets, level, image_shape, score_threshold, candidates_per_level)
        for logits, offsets, level in levels
    ]
    boxes, scores, labels = (torch.cat(column) for column in zip(*found, strict=True))
    kept = batched_nms(boxes, scores, labels, iou_threshold)[:detections]
    return Detections(boxes[kept], scores[kept], labels[kept])


def _candidates(
    logits: Tensor,
    offsets: Tensor,
    anchors: Tensor,
    image_shape: tuple[int, int],
    score_threshold: float,
    most: int,
) -> Detections:
    """Return the best (anchor, class) pairs of one level, before suppression."""
    scores = logits.sigmoid().flatten()
    above = (scores > score_threshold).nonzero()[:, 0]
    best_scores, best = scores[above].topk(min(most, len(above)))
    anchor, label = above[best] // logits.shape[1], above[best] % logits.shape[1]
    height, width = image_shape
    limits = anchors.new_tensor([width, height, width, height])
    boxes = decode(offsets[anchor], anchors[anchor]).clamp(min=0).minimum(limits)
    return Detections(boxes, best_scores, label)


def decode(offsets: Tensor, anchors: Tensor) -> Tensor:
    """Return the boxes [N, 4] from offsets [N, 4] and anchors."""
    size = anchors[:, 2:] - anchors[:, :2]
    centre = anchors[:, :2] + 0.5 * size + offsets[:, :2] * size
    half = 0.5 * size * offsets[:, 2:].clamp(max=MAX_LOG_SCALE).exp()
    return torch.cat((centre - half, centre + half), dim=1)
