"""Steps of unfold_maps and fold_maps."""

from __future__ import annotations

from itertools import product

import numpy as np

from tests.support.sanitized.inputs import MAPS, Call, Step, numbers


def unfold_and_fold(call: Call, element: str, beyond: int) -> None:
    """Neighbourhoods of several maps, and back."""
    for maps, images, channels in product(MAPS, (0, 1, 2), (1, 5, 64)):
        cells = images * sum(rows * columns for rows, columns in maps)
        x, neighbours = numbers(cells * channels, element), numbers(cells * channels * 9, element)
        sizes = np.array(maps, "i8").flatten()
        extents = sizes, len(maps), images + beyond, channels
        call("unfold_maps", x, *extents, neighbours)
        call("fold_maps", neighbours, *extents, x)


STEPS: tuple[Step, ...] = (unfold_and_fold,)
