"""Matching the anchors of an 800 px image, and suppression among candidates."""

from __future__ import annotations

from functools import partial

import torch
from torch import Tensor

from kernels.bench.cases import Case, bytes_of, compiled
from kernels.ops import boxes as ops
from kernels.reference import boxes as reference

ANCHORS, BOXES, CANDIDATES, CLASSES = 120_087, 16, 5000, 264
HIGH, LOW, IOU = 0.5, 0.4, 0.5
MATCHED = (f"{ANCHORS} anchors, {BOXES} boxes",)
SUPPRESSED = (f"{CANDIDATES} boxes",)


def matching(dtype: str, shape: str) -> Case:
    """Return the case of box_match; its results are the reference's exactly."""
    anchors, boxes = some_boxes(ANCHORS, 4), some_boxes(BOXES, 5)
    arguments = (anchors, boxes, HIGH, LOW, True)
    matches = torch.empty(ANCHORS, dtype=torch.int64)
    return Case(
        shape=shape,
        kernel=partial(ops.box_match, *arguments),
        baselines={
            "eager": partial(reference.box_match, *arguments),
            "compile": partial(compiled(reference.box_match), *arguments),
        },
        moved_bytes=bytes_of(anchors, boxes, matches),
        largest_bytes=bytes_of(anchors),
        objections=lambda: _unequal(
            ops.box_match(*arguments), reference.box_match(*arguments), "matches"
        ),
    )


def suppression(dtype: str, shape: str) -> Case:
    """Return the case of nms; what is kept is what the reference keeps, in its order."""
    boxes, scores = some_boxes(CANDIDATES, 6), _scores()
    arguments = (boxes, scores, IOU)
    return Case(
        shape=shape,
        kernel=partial(ops.nms, *arguments),
        baselines={"eager": partial(reference.nms, *arguments)},
        moved_bytes=bytes_of(boxes, scores),
        largest_bytes=bytes_of(boxes),
        objections=lambda: _unequal(ops.nms(*arguments), reference.nms(*arguments), "kept"),
    )


def batched_suppression(dtype: str, shape: str) -> Case:
    """Return the case of batched_nms; what is kept is what the reference keeps, in its order."""
    boxes, scores = some_boxes(CANDIDATES, 6), _scores()
    labels = torch.randint(0, CLASSES, (CANDIDATES,), generator=torch.Generator().manual_seed(8))
    arguments = (boxes, scores, labels, IOU)
    return Case(
        shape=shape,
        kernel=partial(ops.batched_nms, *arguments),
        baselines={"eager": partial(reference.batched_nms, *arguments)},
        moved_bytes=bytes_of(boxes, scores, labels),
        largest_bytes=bytes_of(boxes),
        objections=lambda: _unequal(
            ops.batched_nms(*arguments), reference.batched_nms(*arguments), "kept"
        ),
    )


def some_boxes(count: int, seed: int) -> Tensor:
    """Return boxes [count, 4] of 8 to 300 pixels a side, most of them in an 800 px image."""
    generator = torch.Generator().manual_seed(seed)
    centre = torch.rand(count, 2, generator=generator) * 800
    half = torch.rand(count, 2, generator=generator) * 146 + 4
    return torch.cat((centre - half, centre + half), dim=1)


def _scores() -> Tensor:
    return torch.rand(CANDIDATES, generator=torch.Generator().manual_seed(7))


def _unequal(mine: Tensor, truth: Tensor, what: str) -> list[str]:
    if torch.equal(mine, truth):
        return []
    if mine.shape != truth.shape:
        return [f"{what}: {len(mine)}, expected {len(truth)}"]
    return [f"{what}: {int((mine != truth).sum())} of {len(truth)} differ from the reference's"]
