"""Matching anchors with boxes; fp32 on a CPU runs compiled.

Overlaps are computed with the reference's rounding, so that matches equal the reference's exactly.
"""

from __future__ import annotations

import torch
from torch import Tensor

from kernels.common.boxes import check_boxes, serves_boxes
from kernels.op import Op, TorchOp, call, register
from kernels.reference import boxes as reference


def box_match(
    anchors: Tensor, boxes: Tensor, high: float, low: float, allow_low_quality: bool
) -> Tensor:
    """Return for each anchor the index of its ground-truth box, -1 for background, -2 if ignored.

    int64 [A]; no [G, A] matrix of overlaps is made.

    An anchor takes the box of its highest IoU (the first one of a tie) if that IoU is at least
    `high`; below `low` it is background, between them ignored. With `allow_low_quality` each box
    also makes the anchors of its highest IoU (all of a tie) take their own best box, however low
    that IoU is (Ren et al. 2015, section 3.1.2).

    Args:
        anchors: [A, 4].
        boxes: [G, 4] with positive areas; without any, all anchors are background. An overlap that
            is NaN counts as none.
        high: least IoU of a match.
        low: least IoU that is not background.
        allow_low_quality: whether every box is to be some anchor's.

    Raises:
        ValueError: anchors or boxes are not [N, 4].
    """
    check_boxes(anchors, boxes)
    if not serves_boxes(anchors, boxes):
        return reference.box_match(anchors, boxes, high, low, allow_low_quality)
    matches: Tensor = torch.ops.benchfarm.box_match(anchors, boxes, high, low, allow_low_quality)
    return matches


def _run(
    anchors: Tensor, boxes: Tensor, high: float, low: float, allow_low_quality: bool
) -> Tensor:
    anchors, boxes = anchors.contiguous(), boxes.contiguous()
    matches = _fake(anchors)
    call(
        "box_match",
        torch.float32,
        anchors,
        len(anchors),
        boxes,
        len(boxes),
        high,
        low,
        allow_low_quality,
        matches,
    )
    return matches


def _fake(anchors: Tensor, *_: object) -> Tensor:
    return torch.empty(anchors.shape[:1], dtype=torch.int64, device=anchors.device)


OP = register(
    Op(
        dtypes=("fp32",),
        reference=reference.box_match,
        torch_ops=(
            TorchOp(
                "box_match(Tensor anchors, Tensor boxes, float high, float low,"
                " bool allow_low_quality) -> Tensor",
                _run,
                _fake,
            ),
        ),
    )
)
