"""RetinaNet's training loss, image by image (Lin et al. 2017, sections 4 and 5)."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor
from torch.nn import functional

from models.retinanet.box_coder import encode
from models.retinanet.data import DetectionTarget
from models.retinanet.head import HeadOutputs

FOREGROUND_IOU = 0.5
BACKGROUND_IOU = 0.4


def detection_loss(
    outputs: HeadOutputs, targets: Sequence[DetectionTarget], anchors: Tensor
) -> Tensor:
    """Return classification plus box loss in fp32, averaged over the images.

    Args:
        outputs: of the heads, any float dtype.
        targets: ground truth of each image; an image may have no boxes.
        anchors: [A, 4], the same for all images.
    """
    logits, regression = outputs.cls_logits.float(), outputs.bbox_regression.float()
    losses = []
    for image, target in enumerate(targets):
        matches = match_anchors(anchors, target)
        losses.append(classification_loss(logits[image], target, matches))
        losses.append(box_loss(regression[image], target, anchors, matches))
    return torch.stack(losses).sum() / len(targets)


def match_anchors(anchors: Tensor, target: DetectionTarget) -> Tensor:
    """Return the match of each anchor, int64 [A], as `box_match` defines it."""
    from kernels.reference.boxes import box_match

    return box_match(
        anchors, target.boxes, high=FOREGROUND_IOU, low=BACKGROUND_IOU, allow_low_quality=True
    )


def classification_loss(logits: Tensor, target: DetectionTarget, matches: Tensor) -> Tensor:
    """Return the focal loss of logits [A, C], ignored anchors left out, per foreground anchor."""
    from kernels.reference.boxes import IGNORED
    from kernels.reference.focal_loss import sigmoid_focal_loss

    counted = matches != IGNORED
    logits, matches = logits[counted], matches[counted]
    foreground = matches >= 0
    classes = torch.zeros_like(logits)
    classes[foreground, target.labels[matches[foreground]]] = 1
    loss = sigmoid_focal_loss(logits, classes, alpha=0.25, gamma=2.0, reduction="sum")
    return loss / foreground.sum().clamp(min=1)


def box_loss(
    regression: Tensor, target: DetectionTarget, anchors: Tensor, matches: Tensor
) -> Tensor:
    """Return the L1 loss of the regression [A, 4] of foreground anchors, per foreground anchor."""
    foreground = (matches >= 0).nonzero()[:, 0]
    wanted = encode(target.boxes[matches[foreground]], anchors[foreground])
    loss = functional.l1_loss(regression[foreground], wanted, reduction="sum")
    return loss / max(1, foreground.numel())
