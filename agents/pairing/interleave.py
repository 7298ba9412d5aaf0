"""Two sides take turns on one device until their ratio is known well enough."""

from __future__ import annotations

import random
import time
from collections.abc import Callable
from dataclasses import dataclass
from statistics import median
from typing import Protocol

from controller.contracts.pair import Pair
from controller.stats.pairs import PairedRatio, enough, ratio_of_pairs

BATCH_S = 1.0
"""How long a turn lasts where steps are shorter: long against switching sides, short against
the drift that a pair cancels."""
MAX_STEPS = 199
MAX_PAIRS = 500
"""Both bound what is stored: a comparison is at most 200,000 samples."""


class Side(Protocol):
    """One of two things that are compared."""

    async def run_batch(self, steps: int) -> tuple[float, ...]:
        """Run a batch of so many counted steps and return their samples, one or more.

        Called when the other side is at rest; at rest itself when it returns. Raises WorkerFault.
        """
        ...


@dataclass(frozen=True, slots=True)
class Plan:
    """When to stop, and how turns are dealt out."""

    width: float
    """Stop when the interval is narrower than this share of the ratio."""
    time_limit_s: float
    """Begin no further pair that would end after so many seconds, judged by the last one."""
    seed: str
    """Of the coin that decides which side goes first in a pair."""
    batch_s: float | None = BATCH_S
    """None: a turn is one step, however long."""


@dataclass(frozen=True, slots=True)
class ComparisonState:
    """What is known after a pair."""

    pairs: tuple[Pair, ...]
    ratio: PairedRatio
    elapsed_s: float

    @property
    def last_pair_s(self) -> float:
        """Seconds that the last pair took."""
        before = self.pairs[-2].ended_s if len(self.pairs) > 1 else None
        return self.elapsed_s - (before or 0.0)


async def interleave(
    a: Side,
    b: Side,
    plan: Plan,
    tell: Callable[[ComparisonState], None] = lambda _: None,
    clock: Callable[[], float] = time.monotonic,
) -> ComparisonState:
    """Let two sides take turns until the plan is fulfilled; `tell` hears of each pair.

    Both sides take the same number of steps within a pair, and a coin decides which goes first:
    whatever else the device does then favours neither. Raises what a turn raises.
    """
    coin = random.Random(plan.seed)
    pairs: list[Pair] = []
    steps, started = 1, clock()
    while True:
        pair = await _pair(a, b, steps, a_first=coin.random() < 0.5)
        elapsed = clock() - started
        pairs.append(pair.model_copy(update={"ended_s": elapsed}))
        state = ComparisonState(tuple(pairs), ratio_of_pairs(pairs), elapsed)
        tell(state)
        if is_over(state, plan):
            return state
        if plan.batch_s is not None:
            steps = next_steps(pairs[-1], plan.batch_s)


def is_over(state: ComparisonState, plan: Plan) -> bool:
    """Whether the interval is narrow enough, or no further pair fits into time and patience."""
    if state.elapsed_s + state.last_pair_s > plan.time_limit_s or len(state.pairs) >= MAX_PAIRS:
        return True
    return enough(state.ratio, plan.width)


def next_steps(pair: Pair, batch_s: float) -> int:
    """Return the steps of the next turns: what the slower side does in batch_s seconds.

    An odd number, whose median is a sample; the same for both sides, so that a median of skewed
    samples leans no further on one side than on the other.
    """
    fitting = int(batch_s / max(median(pair.a), median(pair.b)))
    return min(MAX_STEPS, max(1, fitting - (fitting % 2 == 0)))


async def _pair(a: Side, b: Side, steps: int, *, a_first: bool) -> Pair:
    if a_first:
        ours = await a.run_batch(steps)
        return Pair(a=ours, b=await b.run_batch(steps), a_first=True)
    theirs = await b.run_batch(steps)
    return Pair(a=await a.run_batch(steps), b=theirs, a_first=False)
