"""Runs every exported function on arrays of exactly its size: `… LIBRARY VARIANT[,…] [beyond]`.

For a library built with AddressSanitizer, preloaded. numpy's arrays come from malloc, so a step
beyond one ends the process. `beyond` takes such a step, to show that it does.
"""

from __future__ import annotations

import ctypes
import sys
from collections.abc import Iterator
from itertools import product

import numpy as np
from numpy.typing import NDArray

from kernels.library import Function, bind

THREADS = 2
GAMMAS = (0.0, 0.5, 2.0)
ELEMENTS = {"f32": np.dtype(np.float32), "bf16": np.dtype(np.uint16)}
GENERATOR = np.random.default_rng(0)

Numbers = NDArray[np.generic]


def numbers(count: int, dtype: np.dtype[np.generic]) -> Numbers:
    """Return random numbers, among them infinities and NaN; as bf16 any 16 bits will do."""
    if dtype == np.uint16:
        return GENERATOR.integers(0, 2**16, count, dtype=np.uint16)
    found = GENERATOR.normal(0, 8, count).astype(np.float32)
    found[::7] = np.inf
    found[1::11] = np.nan
    return found


def focal_dense(run: dict[str, Function], dtype: np.dtype[np.generic], beyond: int) -> None:
    """Call forward and backward with and without what may be null."""
    for count, gamma, each in product((0, 1, 7, 31, 257, 17_000), GAMMAS, (False, True)):
        logits, targets, results = (numbers(count, dtype) for _ in range(3))
        optional = results.ctypes.data if each else None
        inputs = logits.ctypes.data, targets.ctypes.data, count + beyond, 0.25, gamma
        total = ctypes.c_double()
        run["focal_dense_forward"](*inputs, optional, ctypes.byref(total), THREADS)
        upstream = numbers(count, dtype)
        given = upstream.ctypes.data if each else None
        run["focal_dense_backward"](*inputs, given, 0.5, results.ctypes.data, THREADS)


def focal_labels(run: dict[str, Function], dtype: np.dtype[np.generic], beyond: int) -> None:
    """Call forward and backward for rows of many lengths and labels of all kinds."""
    for (rows, columns), gamma, each in product(
        ((0, 3), (1, 1), (5, 0), (37, 5), (65, 17), (130, 264)), GAMMAS, (False, True)
    ):
        logits, results = (numbers(rows * columns, dtype) for _ in range(2))
        labels = GENERATOR.integers(-1, columns + 1, rows)
        optional = results.ctypes.data if each else None
        inputs = logits.ctypes.data, labels.ctypes.data, rows + beyond, columns, columns, -1
        total = ctypes.c_double()
        parameters = 0.25, gamma
        run["focal_labels_forward"](*inputs, *parameters, optional, ctypes.byref(total), THREADS)
        upstream = numbers(rows * columns, dtype)
        given = upstream.ctypes.data if each else None
        run["focal_labels_backward"](
            *inputs, *parameters, given, 0.5, results.ctypes.data, THREADS
        )


OPERATORS = {
    focal_dense: ("focal_dense_forward", "focal_dense_backward"),
    focal_labels: ("focal_labels_forward", "focal_labels_backward"),
}


def functions(library: ctypes.CDLL, variant: str) -> Iterator[tuple[str, dict[str, Function]]]:
    """Give every element type's functions by the first part of their names."""
    names = [name for of_one in OPERATORS.values() for name in of_one]
    for element in ELEMENTS:
        yield element, {name: bind(library, f"{name}_{element}", variant) for name in names}


def main() -> None:
    """Run everything, and say so at the end."""
    path, variants, *beyond = sys.argv[1:]
    library = ctypes.CDLL(path)
    for variant in variants.split(","):
        for element, run in functions(library, variant):
            for operator in OPERATORS:
                operator(run, ELEMENTS[element], 1 if beyond else 0)
    sys.stdout.write("all done\n")


if __name__ == "__main__":
    main()
