"""Steps of sigmoid_focal_loss_from_labels."""

from __future__ import annotations

import ctypes
from itertools import product

from tests.support.sanitized.inputs import GAMMAS, GENERATOR, Call, Step, numbers


def sigmoid_focal_loss_from_labels(call: Call, element: str, beyond: int) -> None:
    """Forward and backward for rows of many lengths and labels of all kinds."""
    shapes = (0, 3), (1, 1), (5, 0), (37, 5), (65, 17), (130, 264)
    for (rows, columns), gamma, each in product(shapes, GAMMAS, (False, True)):
        logits, results, upstream = (numbers(rows * columns, element) for _ in range(3))
        labels = GENERATOR.integers(-1, columns + 1, rows)
        inputs = logits, labels, rows + beyond, columns, columns, -1, 0.25, gamma
        total = ctypes.byref(ctypes.c_double())
        call("sigmoid_focal_loss_from_labels_forward", *inputs, results if each else None, total)
        call(
            "sigmoid_focal_loss_from_labels_backward",
            *inputs,
            upstream if each else None,
            0.5,
            results,
        )


STEPS: tuple[Step, ...] = (sigmoid_focal_loss_from_labels,)
