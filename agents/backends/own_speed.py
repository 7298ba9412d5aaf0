"""How fast the machine is right before and after what is timed.

No counter shows what the neighbours of a virtual machine take of its cores' speed.
"""

from __future__ import annotations

import time
from typing import Final

SIZE: Final = 512
"""Of the square matrices: three of them stay in the cores' own caches."""
LEAST_S: Final = 0.02
LEAST_CALLS: Final = 5
MOST_CALLS: Final = 1000


def product_flops(precision: str) -> float:
    """Return FLOPs a second of a matrix product on this process's threads, some 20 ms long.

    It is that of the quickest call: one that was interrupted says nothing of the speed.

    precision: as the knob; bf16 has inputs and outputs of that type, others have fp32.
    """
    import torch

    dtype = torch.bfloat16 if precision == "bf16" else torch.float32
    a, b, out = (torch.ones(SIZE, SIZE, dtype=dtype) for _ in range(3))
    torch.mm(a, b, out=out)  # sets up its kernel
    seconds: list[float] = []
    while len(seconds) < LEAST_CALLS or (sum(seconds) < LEAST_S and len(seconds) < MOST_CALLS):
        began_s = time.perf_counter()
        torch.mm(a, b, out=out)
        seconds.append(time.perf_counter() - began_s)
    return 2.0 * SIZE**3 / min(seconds)
