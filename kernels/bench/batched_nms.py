"""Suppression within each class among the candidates of an image."""

from __future__ import annotations

from functools import partial

import torch

from kernels.bench.case import Case, Operator, bytes_of, unequal
from kernels.bench.inputs import CANDIDATES, IOU, some_boxes, some_scores
from kernels.ops.batched_nms import OP, batched_nms
from kernels.reference import boxes as reference

CLASSES = 264


def case(dtype: str, shape: str) -> Case:
    """Return the case of batched_nms; it must keep the same boxes as the reference, in the same
    order."""
    boxes, scores = some_boxes(CANDIDATES, 6), some_scores(CANDIDATES)
    labels = torch.randint(0, CLASSES, (CANDIDATES,), generator=torch.Generator().manual_seed(8))
    arguments = (boxes, scores, labels, IOU)
    return Case(
        shape=shape,
        kernel=partial(batched_nms, *arguments),
        baselines={"eager": partial(reference.batched_nms, *arguments)},
        moved_bytes=bytes_of(boxes, scores, labels, batched_nms(*arguments)),
        largest_bytes=bytes_of(boxes),
        objections=lambda: unequal(
            "kept", batched_nms(*arguments), reference.batched_nms(*arguments)
        ),
    )


OPERATOR = Operator(OP.dtypes, (f"{CANDIDATES} boxes",), case)
