"""Steps of detection_postprocess."""

from __future__ import annotations

from itertools import product

import numpy as np

from tests.support.sanitized.inputs import Call, Step, boxes, numbers


def detection_postprocess(call: Call, element: str, beyond: int) -> None:
    """Levels of several sizes; nothing, something and everything above the threshold."""
    for sizes, least in product(([], [0], [3], [700, 90, 1]), (1e9, 0.0, -1e9)):
        count, classes, most = sum(sizes), 23, 30
        logits, offsets = numbers(count * classes, element), numbers(count * 4, element)
        levels = np.array(sizes, "i8")
        results = np.empty((most, 4), "f4"), np.empty(most, "f4"), np.empty(most, "i8")
        inputs = logits, offsets, boxes(count), levels, len(sizes) + beyond, classes
        call("detection_postprocess", *inputs, 64, 64, least, 4.1, 50, 0.5, most, *results)


STEPS: tuple[Step, ...] = (detection_postprocess,)
