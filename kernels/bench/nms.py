"""Suppression among the candidates of an image."""

from __future__ import annotations

from functools import partial

from kernels.bench.case import Case, Operator, bytes_of, unequal
from kernels.bench.inputs import CANDIDATES, IOU, some_boxes, some_scores
from kernels.ops.nms import OP, nms
from kernels.reference import boxes as reference


def case(dtype: str, shape: str) -> Case:
    """Return the case of nms; it must keep the same boxes as the reference, in the same order."""
    boxes, scores = some_boxes(CANDIDATES, 6), some_scores(CANDIDATES)
    arguments = (boxes, scores, IOU)
    return Case(
        shape=shape,
        kernel=partial(nms, *arguments),
        baselines={"eager": partial(reference.nms, *arguments)},
        moved_bytes=bytes_of(boxes, scores, nms(*arguments)),
        largest_bytes=bytes_of(boxes),
        objections=lambda: unequal("kept", nms(*arguments), reference.nms(*arguments)),
    )


OPERATOR = Operator(OP.dtypes, (f"{CANDIDATES} boxes",), case)
