"""RetinaNet's training loss, image by image (Lin et al. 2017, sections 4 and 5)."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import torch
from torch import Tensor
from torch.nn import functional

from models.retinanet.box_coder import encode
from models.retinanet.data import DetectionTarget
from models.retinanet.head import HeadOutputs

FOREGROUND_IOU = 0.5
BACKGROUND_IOU = 0.4
ALPHA = 0.25
GAMMA = 2.0

FocalLoss = Callable[[Tensor, Tensor], Tensor]
"""The focal loss of one image, summed in fp32, from its logits [A, C] of any float dtype and the
class of each anchor, int64 [A]: 0 to C - 1, BACKGROUND (no class) or IGNORED (does not count)."""


def reference_focal_loss(logits: Tensor, classes: Tensor) -> Tensor:
    """Compute the focal loss by its definition, from a dense target; see FocalLoss."""
    from kernels.reference.boxes import IGNORED
    from kernels.reference.focal_loss import sigmoid_focal_loss

    counted = classes != IGNORED
    logits, classes = logits[counted].float(), classes[counted]
    foreground = (classes >= 0).nonzero()[:, 0]
    wanted = torch.zeros_like(logits)
    wanted[foreground, classes[foreground]] = 1
    return sigmoid_focal_loss(logits, wanted, ALPHA, GAMMA, reduction="sum")


def focal_loss_by_labels(logits: Tensor, classes: Tensor) -> Tensor:
    """Sum the loss of all decisions as background, and correct the few positive ones; see
    FocalLoss."""
    from kernels.reference.boxes import IGNORED
    from models.retinanet.background_loss import background_focal_loss

    counted = classes != IGNORED
    foreground = (classes >= 0).nonzero()[:, 0]
    positives = foreground, classes[foreground]
    background = background_focal_loss(logits, counted, positives, ALPHA)
    return background + positive_focal_loss(logits[positives].float()).sum()


def positive_focal_loss(logits: Tensor) -> Tensor:
    """Return the loss [F] of decisions that should be positive."""
    return ALPHA * logits.neg().sigmoid() ** GAMMA * functional.softplus(-logits)


def fused_focal_loss(logits: Tensor, classes: Tensor) -> Tensor:
    """Compute the focal loss in one pass, without a dense target; see FocalLoss."""
    from kernels.ops.sigmoid_focal_loss_from_labels import sigmoid_focal_loss_from_labels
    from kernels.reference.boxes import BACKGROUND, IGNORED

    return sigmoid_focal_loss_from_labels(
        logits, classes, ALPHA, GAMMA, "sum", ignore_index=IGNORED, background=BACKGROUND
    )


FOCAL_LOSSES: Mapping[str, FocalLoss] = {
    "reference": reference_focal_loss,
    "by_labels": focal_loss_by_labels,
    "fused": fused_focal_loss,
}
"""Values of the knob `focal_loss`."""

Matching = Callable[[Tensor, DetectionTarget], Tensor]
"""Anchors [A, 4] and an image's boxes → each anchor's match, int64 [A], as in `box_match`."""


def reference_matching(anchors: Tensor, target: DetectionTarget) -> Tensor:
    """Match anchors by the matrix of all overlaps; see Matching."""
    from kernels.reference.boxes import box_match

    return box_match(anchors, target.boxes, FOREGROUND_IOU, BACKGROUND_IOU, allow_low_quality=True)


def fused_matching(anchors: Tensor, target: DetectionTarget) -> Tensor:
    """Match anchors without the matrix of overlaps; see Matching."""
    from kernels.ops.box_match import box_match

    return box_match(anchors, target.boxes, FOREGROUND_IOU, BACKGROUND_IOU, allow_low_quality=True)


MATCHINGS: Mapping[str, Matching] = {"reference": reference_matching, "fused": fused_matching}
"""Values of the knob `matching`."""


def detection_loss(
    outputs: HeadOutputs,
    targets: Sequence[DetectionTarget],
    anchors: Tensor,
    focal_loss: FocalLoss,
    matching: Matching,
) -> Tensor:
    """Return classification plus box loss in fp32, averaged over the images.

    Both are divided by the image's number of foreground anchors.

    Args:
        outputs: of the heads, any float dtype.
        targets: ground truth of each image; an image may have no boxes.
        anchors: [A, 4], the same for all images.
        focal_loss: one of FOCAL_LOSSES.
        matching: one of MATCHINGS.
    """
    losses = []
    images = zip(outputs.cls_logits, outputs.bbox_regression, targets, strict=True)
    for logits, regression, target in images:
        matches = matching(anchors, target)
        foreground = (matches >= 0).nonzero()[:, 0]
        loss = focal_loss(logits, anchor_classes(matches, foreground, target))
        loss = loss + box_loss(regression, target, anchors, matches, foreground)
        losses.append(loss / max(1, foreground.numel()))
    return torch.stack(losses).mean()


def anchor_classes(matches: Tensor, foreground: Tensor, target: DetectionTarget) -> Tensor:
    """Return the class of each anchor in FocalLoss's form: int64 [A].

    A match is the index of a box, or already the value for background or ignored.
    """
    classes = matches.clone()
    classes[foreground] = target.labels[matches[foreground]]
    return classes


def box_loss(
    regression: Tensor,
    target: DetectionTarget,
    anchors: Tensor,
    matches: Tensor,
    foreground: Tensor,
) -> Tensor:
    """Return the L1 loss in fp32 of the regression [A, 4], summed over the foreground anchors."""
    wanted = encode(target.boxes[matches[foreground]], anchors[foreground])
    return functional.l1_loss(regression[foreground].float(), wanted, reduction="sum")
