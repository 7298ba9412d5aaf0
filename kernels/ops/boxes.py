"""Matching anchors with boxes, and non-maximum suppression; fp32 on a CPU runs compiled.

Overlaps are worked out with the reference's own roundings, so that matches and what is kept are the
reference's exactly.
"""

from __future__ import annotations

import torch
from torch import Tensor

from kernels.ops.registry import call, define, serves
from kernels.reference import boxes as reference
from kernels.reference.labels import check_integers


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
    _check(anchors, boxes)
    if not _serves(anchors, boxes):
        return reference.box_match(anchors, boxes, high, low, allow_low_quality)
    matches: Tensor = torch.ops.benchfarm.box_match(anchors, boxes, high, low, allow_low_quality)
    return matches


def nms(boxes: Tensor, scores: Tensor, iou_threshold: float) -> Tensor:
    """Return the indices [K] that greedy non-maximum suppression keeps, best score first.

    A box [N, 4] goes when its IoU with a kept box of a higher score [N] is above the threshold; of
    equal scores the lower index counts as the higher score. Raises ValueError if shapes don't
    fit.
    """
    _check(boxes)
    _check_one_each(boxes, scores=scores)
    if not _serves(boxes, scores) or iou_threshold < 0:
        return reference.nms(boxes, scores, iou_threshold)
    kept: Tensor = torch.ops.benchfarm.nms(boxes, scores, None, iou_threshold)
    return kept


def batched_nms(boxes: Tensor, scores: Tensor, labels: Tensor, iou_threshold: float) -> Tensor:
    """Return the indices [K] kept by `nms` within each label [N], best score first.

    Raises ValueError as `nms`, and for labels that are not integers.
    """
    _check(boxes)
    _check_one_each(boxes, scores=scores, labels=labels)
    check_integers(labels)
    if not _serves(boxes, scores) or iou_threshold < 0:
        return reference.batched_nms(boxes, scores, labels, iou_threshold)
    kept: Tensor = torch.ops.benchfarm.nms(boxes, scores, labels, iou_threshold)
    return kept


def _check(*boxes: Tensor) -> None:
    for some in boxes:
        if some.dim() != 2 or some.shape[1] != 4:
            raise ValueError(f"boxes {list(some.shape)}: expected [N, 4]")


def _check_one_each(boxes: Tensor, **numbers: Tensor) -> None:
    for name, some in numbers.items():
        if some.shape != boxes.shape[:1]:
            raise ValueError(
                f"boxes {list(boxes.shape)}, {name} {list(some.shape)}: expected [N, 4] and [N]"
            )


def _serves(*tensors: Tensor) -> bool:
    return all(t.dtype == torch.float32 for t in tensors) and serves(*tensors)


def _match(
    anchors: Tensor, boxes: Tensor, high: float, low: float, allow_low_quality: bool
) -> Tensor:
    anchors, boxes = anchors.contiguous(), boxes.contiguous()
    matches = _fake_match(anchors)
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


def _fake_match(anchors: Tensor, *_: object) -> Tensor:
    return torch.empty(anchors.shape[:1], dtype=torch.int64, device=anchors.device)


def _nms(boxes: Tensor, scores: Tensor, labels: Tensor | None, iou_threshold: float) -> Tensor:
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
    """Return labels as 32-bit numbers, the same where they are the same."""
    if labels.numel() and not 0 <= int(labels.min()) <= int(labels.max()) < 2**31:
        labels = torch.unique(labels, return_inverse=True)[1]
    return labels.to(torch.int32).contiguous()


def _fake_nms(boxes: Tensor, scores: Tensor, labels: Tensor | None, iou_threshold: float) -> Tensor:
    count = torch.library.get_ctx().new_dynamic_size()
    return boxes.new_empty(count, dtype=torch.int64)


define(
    "box_match(Tensor anchors, Tensor boxes, float high, float low, bool allow_low_quality)"
    " -> Tensor",
    _match,
    _fake_match,
)
define(
    "nms(Tensor boxes, Tensor scores, Tensor? labels, float iou_threshold) -> Tensor",
    _nms,
    _fake_nms,
)
