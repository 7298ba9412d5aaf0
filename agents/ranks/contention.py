"""How much slower a rank's own work is because other ranks of its host work, too."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Final

import torch
from torch import distributed

from agents.ranks.gradients import exchanging

ROUNDS: Final = 5
"""Steps alone, and as many together: the fewest of whose ratios a median has an interval."""
LONGEST_S: Final = 60.0
"""For all rounds; of longer steps there are fewer."""


def alone_and_together(
    step: Callable[[], object], step_s: float, *, first: bool
) -> tuple[tuple[float, ...], tuple[float, ...]]:
    """Return the seconds of steps that the first rank of each host makes alone, and of those that
    all ranks make at once, in turns; of other ranks, none alone. Of very long steps, none at all.

    step: of this rank, without an exchange. step_s: what the last one took. All ranks have to call
    this. Raises WorkerFault.
    """
    alone, together = [], []
    for _ in range(_agreed(rounds_for(step_s))):
        meet()
        if first:
            alone.append(_seconds(step))
        meet()
        together.append(_seconds(step))
    return tuple(alone), tuple(together)


def rounds_for(step_s: float) -> int:
    """Return how many rounds there is time for, with steps of so many seconds."""
    return min(ROUNDS, int(LONGEST_S / (2 * step_s))) if step_s > 0 else 0


def _agreed(rounds: int) -> int:
    """Return the number that the first of all ranks has found; raises WorkerFault."""
    found = torch.tensor(rounds)
    with exchanging():
        distributed.broadcast(found, src=0)
    return int(found)


def meet() -> None:
    """Wait, without using a core, until all ranks are here; raises WorkerFault."""
    with exchanging():
        distributed.barrier()


def _seconds(step: Callable[[], object]) -> float:
    began_s = time.perf_counter()
    step()
    return time.perf_counter() - began_s
