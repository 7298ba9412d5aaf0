"""The common parts of operators on cells of several maps."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from kernels.op import call

TAPS = 9
"""The cells of a 3x3 neighbourhood."""


def call_on_maps(
    name: str,
    given: Tensor,
    sizes: list[int],
    made: Tensor,
    channels: int,
    *,
    before: Sequence[object] = (),
    images: int | None = None,
) -> None:
    """Call a function of the library.

    Args:
        name: of the function, without its dtype.
        given: the input; its first dimension is that of images, unless `images` says.
        sizes: rows and columns of each map in turn.
        made: the output.
        channels: of the array that has cells.
        before: what the function takes beside, before its output.
        images: how many there are.

    Raises TypeError: `given` and `made` have two dtypes, so that one would be gone beyond.
    """
    if given.dtype != made.dtype:
        raise TypeError(
            f"{name} makes {made.dtype} of {given.dtype}: it reads and writes one dtype"
        )
    of_maps = torch.tensor(sizes, dtype=torch.int64)
    count = len(given) if images is None else images
    call(name, given.dtype, given, of_maps, len(sizes) // 2, count, channels, *before, made)
