"""Steps of box_match."""

from __future__ import annotations

from itertools import product

import numpy as np

from tests.support.sanitized.inputs import Call, Step, boxes


def box_match(call: Call, element: str, beyond: int) -> None:
    """Both ways to treat boxes that no anchor fits well; boxes are always fp32."""
    for anchor_count, box_count, low in product((0, 1, 33, 2100), (0, 1, 5), (0, 1)):
        anchors, some, matches = boxes(anchor_count), boxes(box_count), np.empty(anchor_count, "i8")
        sizes = anchors, anchor_count + beyond, some, box_count
        call("box_match", *sizes, 0.5, 0.4, low, matches, element="f32")


STEPS: tuple[Step, ...] = (box_match,)
