"""Steps of nms."""

from __future__ import annotations

from itertools import product

import numpy as np

from tests.support.sanitized.inputs import GENERATOR, Call, Step, boxes, numbers


def nms(call: Call, element: str, beyond: int) -> None:
    """With and without groups; boxes are always fp32."""
    for count, grouped in product((0, 1, 15, 40, 700), (False, True)):
        some, scores, kept = boxes(count), numbers(count, "f32"), np.empty(count, "i8")
        groups = GENERATOR.integers(0, 9, count, dtype=np.uint32) if grouped else None
        call("nms", some, scores, groups, count + beyond, 0.4, kept, element="f32")


STEPS: tuple[Step, ...] = (nms,)
