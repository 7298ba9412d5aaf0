"""Matching the anchors of an 800 px image."""

from __future__ import annotations

from functools import partial

import torch

from kernels.bench.case import Case, Operator, bytes_of, compiled, unequal
from kernels.bench.inputs import some_boxes
from kernels.ops.box_match import OP, box_match
from kernels.reference import boxes as reference

ANCHORS, BOXES = 120_087, 16
HIGH, LOW = 0.5, 0.4


def case(dtype: str, shape: str) -> Case:
    """Return the case of box_match; results must equal the reference's exactly."""
    anchors, boxes = some_boxes(ANCHORS, 4), some_boxes(BOXES, 5)
    arguments = (anchors, boxes, HIGH, LOW, True)
    matches = torch.empty(ANCHORS, dtype=torch.int64)
    return Case(
        shape=shape,
        kernel=partial(box_match, *arguments),
        baselines={
            "eager": partial(reference.box_match, *arguments),
            "compile": partial(compiled(reference.box_match), *arguments),
        },
        moved_bytes=bytes_of(anchors, boxes, matches),
        largest_bytes=bytes_of(anchors),
        objections=lambda: unequal(
            "matches", box_match(*arguments), reference.box_match(*arguments)
        ),
    )


OPERATOR = Operator(OP.dtypes, (f"{ANCHORS} anchors, {BOXES} boxes",), case)
