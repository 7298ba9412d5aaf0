"""Runs every exported function on arrays of exactly its size: `… LIBRARY VARIANT[,…] [OPERATOR]`.

For a library built with AddressSanitizer, preloaded. numpy's arrays come from malloc, so a step
beyond one ends the process. Of an OPERATOR such a step is asked for, to show that it does.
"""

from __future__ import annotations

import ctypes
import sys
from collections.abc import Callable
from itertools import product
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kernels.library import bind

THREADS = 2
GAMMAS = (0.0, 0.5, 2.0)
GENERATOR = np.random.default_rng(0)

Numbers = NDArray[Any]
Call = Callable[..., int | None]
"""Calls a function by the first part of its name; arrays stand for their addresses."""


def numbers(count: int, element: str) -> Numbers:
    """Return random numbers, among them infinities and NaN; as bf16 any 16 bits will do."""
    if element == "bf16":
        return GENERATOR.integers(0, 2**16, count, dtype=np.uint16)
    found = GENERATOR.normal(0, 8, count).astype(np.float32)
    found[::7] = np.inf
    found[1::11] = np.nan
    return found


def floats(*shape: int) -> Numbers:
    """Return random fp32 numbers from 0 to 1."""
    return GENERATOR.random(shape, dtype=np.float32)


def boxes(count: int) -> Numbers:
    """Return boxes [N, 4] of which many overlap."""
    corner = floats(count, 2) * 20
    return np.concatenate((corner, corner + floats(count, 2) * 8 + 1), axis=1)


def focal_dense(call: Call, element: str, beyond: int) -> None:
    """Forward and backward, with and without what may be null."""
    for count, gamma, each in product((0, 1, 7, 31, 257, 17_000), GAMMAS, (False, True)):
        # Aligned as an element is, and no better.
        logits, targets, results, upstream = (numbers(count + 1, element)[1:] for _ in range(4))
        inputs = logits, targets, count + beyond, 0.25, gamma
        total = ctypes.byref(ctypes.c_double())
        call("focal_dense_forward", *inputs, results if each else None, total)
        call("focal_dense_backward", *inputs, upstream if each else None, 0.5, results)


def focal_past_caches(call: Call, element: str, beyond: int) -> None:
    """A gradient of more than 32 MiB: if aligned, too, it is stored past the caches."""
    count = (32 << 20) // (4 if element == "f32" else 2) + 5
    logits, targets, slopes = (numbers(count, element) for _ in range(3))
    assert slopes.ctypes.data % 64 == 0
    call("focal_dense_backward", logits, targets, count + beyond, 0.25, 2.0, None, 0.5, slopes)


def focal_labels(call: Call, element: str, beyond: int) -> None:
    """Forward and backward for rows of many lengths and labels of all kinds."""
    shapes = (0, 3), (1, 1), (5, 0), (37, 5), (65, 17), (130, 264)
    for (rows, columns), gamma, each in product(shapes, GAMMAS, (False, True)):
        logits, results, upstream = (numbers(rows * columns, element) for _ in range(3))
        labels = GENERATOR.integers(-1, columns + 1, rows)
        inputs = logits, labels, rows + beyond, columns, columns, -1, 0.25, gamma
        total = ctypes.byref(ctypes.c_double())
        call("focal_labels_forward", *inputs, results if each else None, total)
        call("focal_labels_backward", *inputs, upstream if each else None, 0.5, results)


def frozen_batch_norm(call: Call, element: str, beyond: int) -> None:
    """Forward and backward with channels innermost and not, with and without the optional."""
    shapes = (0, 3, 4), (2, 0, 5), (3, 37, 1), (40, 64, 1), (2, 5, 49), (1, 3, 17_000)
    for shape, relu, whole in product(shapes, (0, 1), (False, True)):
        count = int(np.prod(shape))
        x, residual, y, slopes = (numbers(count, element) for _ in range(4))
        scale, shift = floats(shape[1]), floats(shape[1])
        layout = shape[0] + beyond, *shape[1:]
        given = residual if whole else None
        call("frozen_batch_norm_forward", x, *layout, scale, shift, given, relu, y)
        masks = y if relu else None
        call("frozen_batch_norm_backward", x, *layout, scale, masks, slopes, given)


def box_match(call: Call, element: str, beyond: int) -> None:
    """Both ways to treat boxes that no anchor fits well; boxes are always fp32."""
    for anchor_count, box_count, low in product((0, 1, 33, 2100), (0, 1, 5), (0, 1)):
        anchors, some, matches = boxes(anchor_count), boxes(box_count), np.empty(anchor_count, "i8")
        sizes = anchors, anchor_count + beyond, some, box_count
        call("box_match", *sizes, 0.5, 0.4, low, matches, element="f32")


def nms(call: Call, element: str, beyond: int) -> None:
    """With and without groups; boxes are always fp32."""
    for count, grouped in product((0, 1, 15, 40, 700), (False, True)):
        some, scores, kept = boxes(count), numbers(count, "f32"), np.empty(count, "i8")
        groups = GENERATOR.integers(0, 9, count, dtype=np.uint32) if grouped else None
        call("nms", some, scores, groups, count + beyond, 0.4, kept, element="f32")


def detection_postprocess(call: Call, element: str, beyond: int) -> None:
    """Levels of several sizes; nothing, something and everything above the threshold."""
    for sizes, least in product(([], [0], [3], [700, 90, 1]), (1e9, 0.0, -1e9)):
        count, classes, most = sum(sizes), 23, 30
        logits, offsets = numbers(count * classes, element), numbers(count * 4, element)
        levels = np.array(sizes, "i8")
        results = np.empty((most, 4), "f4"), np.empty(most, "f4"), np.empty(most, "i8")
        inputs = logits, offsets, boxes(count), levels, len(sizes) + beyond, classes
        call("detection_postprocess", *inputs, 64, 64, least, 4.1, 50, 0.5, most, *results)


MAPS: tuple[list[tuple[int, int]], ...] = (
    [],
    [(0, 3)],
    [(1, 1)],
    [(2, 3), (1, 1)],
    [(9, 7), (4, 4), (1, 2)],
)
"""Rows and columns of maps."""


def unfold(call: Call, element: str, beyond: int) -> None:
    """Neighbourhoods of several maps, and back."""
    for maps, images, channels in product(MAPS, (0, 1, 2), (1, 5, 64)):
        cells = images * sum(rows * columns for rows, columns in maps)
        x, neighbours = numbers(cells * channels, element), numbers(cells * channels * 9, element)
        sizes = np.array(maps, "i8").flatten()
        extents = sizes, len(maps), images + beyond, channels
        call("unfold", x, *extents, neighbours)
        call("fold", neighbours, *extents, x)


def transpose(call: Call, element: str, beyond: int) -> None:
    """Matrices of whole squares and of parts of them."""
    for rows, columns in ((0, 4), (1, 1), (8, 8), (33, 7), (300, 70), (64, 256)):
        x, y = (numbers(rows * columns, element) for _ in range(2))
        call("transpose", x, rows + beyond, columns, y)


OPERATORS = (
    focal_dense,
    focal_past_caches,
    focal_labels,
    frozen_batch_norm,
    box_match,
    nms,
    detection_postprocess,
    unfold,
    transpose,
)


def caller(library: ctypes.CDLL, variant: str, of: str) -> Call:
    """Return what calls a variant's functions for one type of element."""

    def call(name: str, *arguments: object, element: str = of) -> int | None:
        plain = [a.ctypes.data if isinstance(a, np.ndarray) else a for a in arguments]
        return bind(library, f"{name}_{element}", variant)(*plain, THREADS)

    return call


def main() -> None:
    """Run everything, or go beyond in one operator, and say so at the end."""
    path, variants, *beyond = sys.argv[1:]
    library = ctypes.CDLL(path)
    for variant, element, operator in product(variants.split(","), ("f32", "bf16"), OPERATORS):
        if not beyond or operator.__name__ in beyond:
            operator(caller(library, variant, element), element, len(beyond))
    sys.stdout.write("all done\n")


if __name__ == "__main__":
    main()
