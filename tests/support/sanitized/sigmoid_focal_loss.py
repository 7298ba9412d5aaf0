"""Steps of sigmoid_focal_loss."""

from __future__ import annotations

import ctypes
from itertools import product

from tests.support.sanitized.inputs import GAMMAS, Call, Step, numbers


def sigmoid_focal_loss(call: Call, element: str, beyond: int) -> None:
    """Forward and backward, with and without what may be null."""
    for count, gamma, each in product((0, 1, 7, 31, 257, 17_000), GAMMAS, (False, True)):
        # Aligned as an element is, and no better.
        logits, targets, results, upstream = (numbers(count + 1, element)[1:] for _ in range(4))
        inputs = logits, targets, count + beyond, 0.25, gamma
        total = ctypes.byref(ctypes.c_double())
        call("sigmoid_focal_loss_forward", *inputs, results if each else None, total)
        call("sigmoid_focal_loss_backward", *inputs, upstream if each else None, 0.5, results)


def focal_loss_past_caches(call: Call, element: str, beyond: int) -> None:
    """A gradient of more than 32 MiB: if aligned, too, it is stored past the caches."""
    count = (32 << 20) // (4 if element == "f32" else 2) + 5
    logits, targets, grad_input = (numbers(count, element) for _ in range(3))
    assert grad_input.ctypes.data % 64 == 0
    call(
        "sigmoid_focal_loss_backward",
        logits,
        targets,
        count + beyond,
        0.25,
        2.0,
        None,
        0.5,
        grad_input,
    )


STEPS: tuple[Step, ...] = (
    sigmoid_focal_loss,
    focal_loss_past_caches,
)
