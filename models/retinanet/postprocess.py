"""From head outputs to detections, with the thresholds of MLPerf's reference."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from models.retinanet.box_coder import decode
from models.retinanet.head import HeadOutputs

SCORE_THRESHOLD = 0.05
CANDIDATES_PER_LEVEL = 1000
NMS_IOU = 0.5
DETECTIONS_PER_IMAGE = 300


@dataclass(frozen=True, slots=True, eq=False)
class Detections:
    """What is found in one image, best score first, at most 300."""

    boxes: Tensor
    """[N, 4] in pixels, clipped to the image."""

    scores: Tensor
    """[N] in 0.05..1."""

    labels: Tensor
    """[N] int64."""


@torch.no_grad()
def detect(
    outputs: HeadOutputs, level_anchors: Sequence[Tensor], image_shape: tuple[int, int]
) -> list[Detections]:
    """Return the detections in each image of a batch.

    Args:
        outputs: of the heads, any float dtype.
        level_anchors: [A_l, 4] for each level, finest first.
        image_shape: height and width in pixels.
    """
    sizes = [len(anchors) for anchors in level_anchors]
    level_logits = torch.split(outputs.cls_logits.float(), sizes, dim=1)
    level_regression = torch.split(outputs.bbox_regression.float(), sizes, dim=1)
    levels = list(zip(level_logits, level_regression, level_anchors, strict=True))
    return [
        _suppress(
            [_candidates(c[image], r[image], anchors, image_shape) for c, r, anchors in levels]
        )
        for image in range(outputs.cls_logits.shape[0])
    ]


def _candidates(
    logits: Tensor, regression: Tensor, anchors: Tensor, image_shape: tuple[int, int]
) -> Detections:
    """Return the best (anchor, class) pairs of one level, before suppression."""
    scores = logits.sigmoid().flatten()
    above = (scores > SCORE_THRESHOLD).nonzero()[:, 0]
    best_scores, best = scores[above].topk(min(CANDIDATES_PER_LEVEL, len(above)))
    pairs = above[best]
    anchor, label = pairs // logits.shape[1], pairs % logits.shape[1]
    boxes = _clip(decode(regression[anchor], anchors[anchor]), image_shape)
    return Detections(boxes, best_scores, label)


def _clip(boxes: Tensor, image_shape: tuple[int, int]) -> Tensor:
    height, width = image_shape
    return boxes.clamp(min=0).minimum(boxes.new_tensor([width, height, width, height]))


def _suppress(levels: Sequence[Detections]) -> Detections:
    """Return what is left of the candidates of all levels of one image."""
    from kernels.reference.boxes import batched_nms

    boxes = torch.cat([level.boxes for level in levels])
    scores = torch.cat([level.scores for level in levels])
    labels = torch.cat([level.labels for level in levels])
    kept = batched_nms(boxes, scores, labels, NMS_IOU)[:DETECTIONS_PER_IMAGE]
    return Detections(boxes[kept], scores[kept], labels[kept])
