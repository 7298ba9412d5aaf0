"""Detections from head outputs, with the thresholds of MLPerf's reference."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from models.retinanet.head import HeadOutputs

SCORE_THRESHOLD = 0.05
CANDIDATES_PER_LEVEL = 1000
NMS_IOU = 0.5
DETECTIONS_PER_IMAGE = 300


@dataclass(frozen=True, slots=True, eq=False)
class Detections:
    """The detections in one image, best score first, at most 300."""

    boxes: Tensor
    """[N, 4] in pixels, clipped to the image."""

    scores: Tensor
    """[N] in 0.05..1."""

    labels: Tensor
    """[N] int64."""


def detection_rows(boxes: Tensor, labels: Tensor, scores: Tensor) -> Tensor:
    """Return [N, 6] fp32: top, left, bottom, right, class, score of each detection."""
    edges = boxes[:, (1, 0, 3, 2)].float()
    return torch.cat((edges, labels[:, None].float(), scores[:, None].float()), dim=1)


@torch.no_grad()
def detect(
    outputs: HeadOutputs, level_anchors: Sequence[Tensor], image_shape: tuple[int, int]
) -> list[Detections]:
    """Return the detections in each image of a batch.

    Compiled where kernels are, see `kernels.capabilities`; plain torch gives the same.

    Args:
        outputs: of the heads, any float dtype.
        level_anchors: [A_l, 4] for each level, finest first.
        image_shape: height and width in pixels.
    """
    from kernels.ops.detection_postprocess import detection_postprocess

    anchors, sizes = torch.cat(tuple(level_anchors)), [len(level) for level in level_anchors]
    return [
        Detections(
            *detection_postprocess(
                logits,
                regression,
                anchors,
                sizes,
                image_shape,
                SCORE_THRESHOLD,
                CANDIDATES_PER_LEVEL,
                NMS_IOU,
                DETECTIONS_PER_IMAGE,
            )
        )
        for logits, regression in zip(outputs.cls_logits, outputs.bbox_regression, strict=True)
    ]
