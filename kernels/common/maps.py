"""The common parts of operators on cells of several maps."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from kernels.op import call

TAPS = 9
"""The cells of a 3x3 neighbourhood."""


def check_maps(name: str, given: Tensor, sizes: Sequence[tuple[int, int]], *taps: int) -> None:
    """Raise ValueError unless an array is [B, cells, *taps, C], and no map has a negative side.

    Two of these would make a number of cells that fits, and the library go beyond the array.
    """
    cells = sum(rows * columns for rows, columns in sizes)
    expected = (cells, *taps)
    fits = given.dim() == len(expected) + 2 and given.shape[1:-1] == expected
    if not fits or any(n < 0 for size in sizes for n in size):
        raise ValueError(
            f"{name} {list(given.shape)}, maps of {list(sizes)}: expected "
            f"[B, {', '.join(map(str, expected))}, C], {cells} cells, no side below 0"
        )


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
