"""How fast the machine is right before and after what is timed.

No counter shows what the neighbours of a virtual machine take of its cores' speed.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import Final

SIZE: Final = 512
"""Of the square matrices: three of them stay in the cores' own caches."""
LEAST_S: Final = 0.02
LEAST_CALLS: Final = 5
MOST_CALLS: Final = 1000
MOST_SPELLS: Final = 5
PAUSE_S: Final = 0.05
ALIKE: Final = 0.05


def product_flops(precision: str) -> float:
    """Return FLOPs a second of a matrix product on this process's threads.

    It is that of the quickest call in spells of some 20 ms, until the two fastest spells agree: a
    call that was interrupted says nothing of the speed, nor does a spell in which the system kept
    two threads on one core.

    precision: as the knob; bf16 has inputs and outputs of that type, others have fp32.
    """
    import torch

    dtype = torch.bfloat16 if precision == "bf16" else torch.float32
    a, b, out = (torch.ones(SIZE, SIZE, dtype=dtype) for _ in range(3))

    def multiply() -> None:
        torch.mm(a, b, out=out)

    multiply()  # sets up its kernel
    spells = [_quickest_s(multiply)]
    while len(spells) < MOST_SPELLS and not _agree(spells):
        time.sleep(PAUSE_S)
        spells.append(_quickest_s(multiply))
    return 2.0 * SIZE**3 / min(spells)


def _quickest_s(multiply: Callable[[], None]) -> float:
    seconds: list[float] = []
    while len(seconds) < LEAST_CALLS or (sum(seconds) < LEAST_S and len(seconds) < MOST_CALLS):
        began_s = time.perf_counter()
        multiply()
        seconds.append(time.perf_counter() - began_s)
    return min(seconds)


def _agree(spells: Sequence[float]) -> bool:
    fastest, *others = sorted(spells)
    return bool(others) and others[0] <= (1 + ALIKE) * fastest
