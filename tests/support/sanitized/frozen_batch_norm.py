"""Steps of frozen_batch_norm."""

from __future__ import annotations

from itertools import product

import numpy as np

from tests.support.sanitized.inputs import Call, Step, floats, numbers


def frozen_batch_norm(call: Call, element: str, beyond: int) -> None:
    """Forward and backward with channels innermost and not, with and without the optional."""
    shapes = (0, 3, 4), (2, 0, 5), (3, 37, 1), (40, 64, 1), (2, 5, 49), (1, 3, 17_000)
    for shape, relu, whole in product(shapes, (0, 1), (False, True)):
        count = int(np.prod(shape))
        x, residual, y, grad_x = (numbers(count, element) for _ in range(4))
        scale, shift = floats(shape[1]), floats(shape[1])
        layout = shape[0] + beyond, *shape[1:]
        given = residual if whole else None
        call("frozen_batch_norm_forward", x, *layout, scale, shift, given, relu, y)
        masks = y if relu else None
        call("frozen_batch_norm_backward", x, *layout, scale, masks, grad_x, given)


STEPS: tuple[Step, ...] = (frozen_batch_norm,)
