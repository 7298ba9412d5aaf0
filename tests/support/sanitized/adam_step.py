"""Steps of adam_step."""

from __future__ import annotations

import numpy as np

from tests.support.sanitized.inputs import Call, Step, numbers

RATES = 0.1, 0.001, 1e-3, 0.5, 1e-8


def adam_step(call: Call, element: str, beyond: int) -> None:
    """Of no tensor, of some that are empty, and of some that take several chunks."""
    own = element == "f32"
    # One more is a whole vector of AVX2, whose masked loads are not checked.
    for counts in ((), (0,), (7, 0, 1), (39, 40_000, 3)):
        kept = [[numbers(count, "f32") for count in counts] for _ in range(3)]
        weights, gradients = ([numbers(count, element) for count in counts] for _ in range(2))
        rows = [
            [0 if own else w.ctypes.data, *(t.ctypes.data for t in others)]
            for w, *others in zip(weights, gradients, *kept, strict=True)
        ]
        addresses = np.array(rows, "i8").reshape(-1, 5)
        numbers_of = np.array(counts, "i8") + beyond
        call("adam_step", addresses, numbers_of, len(counts), *RATES, element="f32")


STEPS: tuple[Step, ...] = (adam_step,)
