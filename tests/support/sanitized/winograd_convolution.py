"""Steps of winograd_convolution's transforms."""

from __future__ import annotations

from itertools import product

import numpy as np

from tests.support.sanitized.inputs import MAPS, Call, Step, numbers


def of_maps(call: Call, element: str, beyond: int) -> None:
    """Inputs and outputs, and both adjoints."""
    for maps, images, channels, tile, spare in product(MAPS, (0, 1, 2), (1, 5, 64), (2, 4), (0, 3)):
        cells = images * sum(rows * columns for rows, columns in maps)
        tiles = images * sum(-(-rows // tile) * -(-columns // tile) for rows, columns in maps)
        rows = tiles + spare
        x, planes = (numbers(n * channels, element) for n in (cells, rows * (tile + 2) ** 2))
        sizes = np.array(maps, "i8").flatten()
        extents = sizes, len(maps), images + beyond, channels, tile, rows
        call("winograd_tiles", x, *extents, planes)
        call("winograd_tiles_adjoint", planes, *extents, x)
        for bias, y in ((None, None), (numbers(channels, element), numbers(len(x), element))):
            call("winograd_output", planes, *extents, bias, y is not None, x)
            call("winograd_output_adjoint", x, *extents, y, bias, planes)


def of_weights(call: Call, element: str, beyond: int) -> None:
    """A weight, and its adjoint."""
    for outs, ins, tile in product((0, 1, 3), (1, 5, 64), (2, 4)):
        weight = numbers(outs * 9 * ins, "f32")
        planes = numbers(outs * ins * (tile + 2) ** 2, element)
        call("winograd_weight", weight, outs + beyond, ins, tile, planes)
        call("winograd_weight_adjoint", planes, outs + beyond, ins, tile, weight)


STEPS: tuple[Step, ...] = (of_maps, of_weights)
