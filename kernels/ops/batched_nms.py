"""Non-maximum suppression within each label; torch's operator is in kernels/ops/nms.py."""

from __future__ import annotations

import torch
from torch import Tensor

import kernels.ops.nms  # noqa: F401 - registers benchfarm::nms
from kernels.common.boxes import check_boxes, check_one_each, serves_boxes
from kernels.op import Op, on_cpu, register
from kernels.reference import boxes as reference
from kernels.reference.labels import check_integers


def batched_nms(boxes: Tensor, scores: Tensor, labels: Tensor, iou_threshold: float) -> Tensor:
    """Return the indices [K] kept by `nms` within each label [N], best score first.

    Raises ValueError as `nms`, and for labels that are not integers.
    """
    check_boxes(boxes)
    check_one_each(boxes, scores=scores, labels=labels)
    check_integers(labels)
    if not (serves_boxes(boxes, scores) and on_cpu(labels)) or iou_threshold < 0:
        return reference.batched_nms(boxes, scores, labels, iou_threshold)
    kept: Tensor = torch.ops.benchfarm.nms(boxes, scores, labels, iou_threshold)
    return kept


OP = register(Op(dtypes=("fp32",), reference=reference.batched_nms))
