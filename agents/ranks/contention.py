"""How much slower a rank's own work is because other ranks of its host work, too."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Final

from torch import distributed

from agents.ranks.gradients import exchanging

ROUNDS: Final = 5
"""Steps alone, and as many together: the fewest of whose ratios a median has an interval."""


def alone_and_together(
    step: Callable[[], object], *, first: bool
) -> tuple[tuple[float, ...], tuple[float, ...]]:
    """Return the seconds of steps that the first rank of each host makes alone, and of those that
    all ranks make at once, in turns; of other ranks, none alone.

    step: of this rank, without an exchange. All ranks have to call this. Raises WorkerFault.
    """
    alone, together = [], []
    for _ in range(ROUNDS):
        meet()
        if first:
            alone.append(_seconds(step))
        meet()
        together.append(_seconds(step))
    return tuple(alone), tuple(together)


def meet() -> None:
    """Wait, without using a core, until all ranks are here; raises WorkerFault."""
    with exchanging():
        distributed.barrier()


def _seconds(step: Callable[[], object]) -> float:
    began_s = time.perf_counter()
    step()
    return time.perf_counter() - began_s
