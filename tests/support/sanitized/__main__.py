"""Runs every exported function on arrays of exactly its size: `… LIBRARY VARIANT[,…] [STEP]`.

For a library built with AddressSanitizer, preloaded. numpy's arrays come from malloc, so a step
beyond one ends the process. Of a STEP that is asked for, to show that it does.
"""

from __future__ import annotations

import ctypes
import sys
from itertools import product

import numpy as np

from kernels.library import bind
from tests.support.sanitized.inputs import Call
from tests.support.sanitized.steps import STEPS

THREADS = 2
CALLED = set[str]()


def caller(library: ctypes.CDLL, variant: str, of: str) -> Call:
    """Return what calls a variant's functions for one type of element."""

    def call(name: str, *arguments: object, element: str = of) -> int | None:
        CALLED.add(name)
        plain = [a.ctypes.data if isinstance(a, np.ndarray) else a for a in arguments]
        return bind(library, f"{name}_{element}", variant)(*plain, THREADS)

    return call


def main() -> None:
    """Run everything, or go beyond in one step; print what was called, and at last `all done`."""
    path, variants, *beyond = sys.argv[1:]
    library = ctypes.CDLL(path)
    for variant, element, step in product(variants.split(","), ("f32", "bf16"), STEPS):
        if not beyond or step.__name__ in beyond:
            step(caller(library, variant, element), element, len(beyond))
    sys.stdout.write("".join(f"{name}\n" for name in sorted(CALLED)) + "all done\n")


if __name__ == "__main__":
    main()
