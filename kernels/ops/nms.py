"""Non-maximum suppression; fp32 on a CPU runs compiled.

Overlaps are computed with the reference's rounding, so that the kept boxes equal the reference's
exactly.
"""

from __future__ import annotations

import torch
from torch import Tensor

from kernels.common.boxes import check_boxes, check_one_each, serves_boxes
from kernels.op import Op, TorchOp, call, register
from kernels.reference import boxes as reference


def nms(boxes: Tensor, scores: Tensor, iou_threshold: float) -> Tensor:
    """Return the indices [K] that greedy non-maximum suppression keeps, best score first.

    A box [N, 4] is dropped if its IoU with a kept box of a higher score [N] is above the threshold;
    of equal scores the lower index counts as the higher score. Raises ValueError if shapes don't
    fit.
    """
    check_boxes(boxes)
    check_one_each(boxes, scores=scores)
    if not serves_boxes(boxes, scores) or iou_threshold < 0:
        return reference.nms(boxes, scores, iou_threshold)
    kept: Tensor = torch.ops.benchfarm.nms(boxes, scores, None, iou_threshold)
    return kept


def _run(boxes: Tensor, scores: Tensor, labels: Tensor | None, iou_threshold: float) -> Tensor:
    boxes, scores = boxes.contiguous(), scores.contiguous()
    groups = None if labels is None else _groups(labels)
    kept = torch.empty(len(boxes), dtype=torch.int64)
    count = call(
        "nms",
        torch.float32,
        boxes,
        scores,
        groups,
        len(boxes),
        iou_threshold,
        kept,
    )
    return kept[:count].clone()


def _groups(labels: Tensor) -> Tensor:
    """Return labels as 32-bit numbers, equal where the labels are equal."""
    if labels.numel() and not 0 <= int(labels.min()) <= int(labels.max()) < 2**31:
        labels = torch.unique(labels, return_inverse=True)[1]
    return labels.to(torch.int32).contiguous()


def _fake(boxes: Tensor, scores: Tensor, labels: Tensor | None, iou_threshold: float) -> Tensor:
    count = torch.library.get_ctx().new_dynamic_size()
    return boxes.new_empty(count, dtype=torch.int64)


OP = register(
    Op(
        dtypes=("fp32",),
        reference=reference.nms,
        torch_ops=(
            TorchOp(
                "nms(Tensor boxes, Tensor scores, Tensor? labels, float iou_threshold) -> Tensor",
                _run,
                _fake,
            ),
        ),
    )
)
