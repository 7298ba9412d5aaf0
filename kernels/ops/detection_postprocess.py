"""Detections from the outputs of a RetinaNet-style detector, in one call.

The logits are read once and compared as logits: only those above the threshold get a score.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch
from torch import Tensor

from kernels.op import Op, TorchOp, call, register, serves
from kernels.reference import detection as reference
from kernels.reference.detection import MAX_LOG_SCALE, Detections

LEAST_THRESHOLD = torch.finfo(torch.float32).tiny
"""Smallest score threshold that a logit stands for: smaller scores round to 0 in fp32, which their
logits don't tell."""


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
    come in any order. Logits and regression both in fp32 or both in bf16 on a CPU run compiled,
    with a score threshold above 0.

    Args:
        cls_logits: [A, C]; scores are their sigmoids in fp32.
        bbox_regression: [A, 4], offsets from the anchors (Girshick et al. 2014, appendix C).
        anchors: [A, 4] fp32 in pixels, level by level.
        level_sizes: anchors of each level; A together.
        image_shape: height and width in pixels.
        score_threshold: candidates score more than this.
        candidates_per_level: the most pairs of a level that are looked at.
        iou_threshold: of two boxes of a class that overlap by more, the better one stays.
        detections: the most that are returned.

    Raises:
        ValueError: shapes don't fit each other, or a limit is negative.
    """
    sizes = list(level_sizes)
    _check(cls_logits, bbox_regression, anchors, sizes)
    if min(candidates_per_level, detections) < 0:
        raise ValueError(
            f"candidates_per_level {candidates_per_level}, detections {detections}: "
            "expected 0 or more"
        )
    compares = score_threshold >= LEAST_THRESHOLD and iou_threshold >= 0
    if not (compares and _serves(cls_logits, bbox_regression, anchors)):
        return reference.detection_postprocess(
            cls_logits,
            bbox_regression,
            anchors,
            sizes,
            image_shape,
            score_threshold,
            candidates_per_level,
            iou_threshold,
            detections,
        )
    height, width = image_shape
    return Detections(
        *torch.ops.benchfarm.detection_postprocess(
            cls_logits.detach(),
            bbox_regression.detach(),
            anchors.detach(),
            sizes,
            [height, width],
            logit_of(score_threshold),
            min(candidates_per_level, cls_logits.numel()),
            iou_threshold,
            min(detections, cls_logits.numel()),
        )
    )


def _check(
    cls_logits: Tensor, bbox_regression: Tensor, anchors: Tensor, sizes: Sequence[int]
) -> None:
    count = sum(sizes)
    fits = cls_logits.dim() == 2 and len(cls_logits) == count and min(sizes, default=0) >= 0
    if not (fits and bbox_regression.shape == anchors.shape == (count, 4)):
        raise ValueError(
            f"cls_logits {list(cls_logits.shape)}, bbox_regression {list(bbox_regression.shape)}, "
            f"anchors {list(anchors.shape)}, levels of {list(sizes)}: "
            f"expected [{count}, C], [{count}, 4], [{count}, 4]"
        )


def _serves(cls_logits: Tensor, bbox_regression: Tensor, anchors: Tensor) -> bool:
    fit = cls_logits.dtype == bbox_regression.dtype and anchors.dtype == torch.float32
    return fit and serves(cls_logits, bbox_regression, anchors)


def logit_of(probability: float) -> float:
    """Return the number whose sigmoid is a probability; infinite for 0 and 1 and beyond."""
    if probability <= 0:
        return -math.inf
    return math.log(probability) - math.log1p(-probability) if probability < 1 else math.inf


def _run(
    logits: Tensor,
    regression: Tensor,
    anchors: Tensor,
    level_sizes: list[int],
    image_shape: list[int],
    logit_threshold: float,
    candidates_per_level: int,
    iou_threshold: float,
    detections: int,
) -> tuple[Tensor, Tensor, Tensor]:
    logits, regression, anchors = (t.contiguous() for t in (logits, regression, anchors))
    sizes = torch.tensor(level_sizes, dtype=torch.int64)
    boxes, scores, labels = _results(anchors, detections)
    count = call(
        "detection_postprocess",
        logits.dtype,
        logits,
        regression,
        anchors,
        sizes,
        len(sizes),
        logits.shape[1],
        *image_shape,
        logit_threshold,
        MAX_LOG_SCALE,
        candidates_per_level,
        iou_threshold,
        detections,
        boxes,
        scores,
        labels,
    )
    return boxes[:count].clone(), scores[:count].clone(), labels[:count].clone()


def _fake(logits: Tensor, regression: Tensor, anchors: Tensor, *_: object) -> tuple[Tensor, ...]:
    return _results(anchors, torch.library.get_ctx().new_dynamic_size())


def _results(anchors: Tensor, count: int | torch.SymInt) -> tuple[Tensor, Tensor, Tensor]:
    labels = anchors.new_empty(count, dtype=torch.int64)
    return anchors.new_empty(count, 4), anchors.new_empty(count), labels


OP = register(
    Op(
        dtypes=("fp32", "bf16"),
        reference=reference.detection_postprocess,
        torch_ops=(
            TorchOp(
                "detection_postprocess(Tensor logits, Tensor regression, Tensor anchors,"
                " int[] level_sizes, int[] image_shape, float logit_threshold,"
                " int candidates_per_level, float iou_threshold, int detections)"
                " -> (Tensor, Tensor, Tensor)",
                _run,
                _fake,
            ),
        ),
    )
)
