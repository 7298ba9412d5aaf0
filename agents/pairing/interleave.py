"""Alternation of two sides on one device until their ratio is known well enough."""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from statistics import median
from typing import Protocol

from controller.contracts.pair import Pair
from controller.stats.pairs import PairedRatio, enough, ratio_of_pairs

BATCH_S = 1.0
"""Length of a batch of short steps: long compared with switching sides, short compared with the
drift that a pair cancels."""
MAX_STEPS = 199
MAX_PAIRS = 500
"""Both bound the stored data: a comparison has at most 200,000 samples."""


class Side(Protocol):
    """One side of a comparison."""

    async def run_batch(self, steps: int) -> tuple[float, ...]:
        """Run a batch of counted steps and return their samples, one or more.

        Called while the other side is idle; idle itself when it returns. Raises WorkerFault.
        """
        ...


@dataclass(frozen=True, slots=True)
class Plan:
    """When to stop a comparison, and the length of its batches."""

    width: float
    """Stop when the interval is narrower than this fraction of the ratio."""
    time_limit_s: float
    """Begin no further pair that would end after so many seconds, see `next_pair_s`."""
    seed: str
    """Seed of the random order within pairs."""
    batch_s: float | None = BATCH_S
    """Seconds a batch; None: a batch is one step, however long."""
    uncounted: int = 1
    """Steps of a batch that are not counted, of the side that has most."""


@dataclass(frozen=True, slots=True)
class ComparisonState:
    """The interim result after a pair."""

    pairs: tuple[Pair, ...]
    ratio: PairedRatio
    elapsed_s: float
    next_pair_s: float
    """Seconds that a further pair would take, about."""


async def interleave(
    a: Side,
    b: Side,
    plan: Plan,
    tell: Callable[[ComparisonState], None] = lambda _: None,
    clock: Callable[[], float] = time.monotonic,
) -> ComparisonState:
    """Measure two sides in alternation until the plan is met; `tell` is called after each pair.

    Both sides take the same number of steps within a pair, in random order, so that disturbance
    favours neither. Raises what a batch raises.
    """
    coin = random.Random(plan.seed)
    pairs: list[Pair] = []
    steps, started = 1, clock()
    while True:
        pair = await _pair(a, b, steps, a_first=coin.random() < 0.5)
        elapsed = clock() - started
        pairs.append(pair.model_copy(update={"ended_s": elapsed}))
        if plan.batch_s is None:
            next_s = last_pair_s(pairs)
        else:
            steps = next_steps(pairs[-1], plan.batch_s)
            next_s = next_pair_s(pairs, steps, plan.uncounted)
        state = ComparisonState(tuple(pairs), ratio_of_pairs(pairs), elapsed, next_s)
        tell(state)
        if is_over(state, plan):
            return state


def is_over(state: ComparisonState, plan: Plan) -> bool:
    """Whether the interval is narrow enough, or no further pair fits into time and patience."""
    if state.elapsed_s + state.next_pair_s > plan.time_limit_s or len(state.pairs) >= MAX_PAIRS:
        return True
    return enough(state.ratio, plan.width)


def last_pair_s(pairs: Sequence[Pair]) -> float:
    """Return the seconds that the last of some pairs took."""
    ends = [pair.ended_s or 0.0 for pair in pairs[-2:]]
    return ends[-1] - (ends[0] if len(ends) > 1 else 0.0)


def next_pair_s(pairs: Sequence[Pair], steps: int, uncounted: int) -> float:
    """Return about how long the next pair takes whose batches are some steps: as long as the last.

    The first pair is one counted step of each side, and may contain all that the sides compile, in
    steps that are not counted. So after it, its samples tell, with the uncounted steps of each side
    and one more. uncounted: see Plan.
    """
    last_s = last_pair_s(pairs)
    if len(pairs) > 1:
        return last_s
    step_s = median(pairs[0].a) + median(pairs[0].b)
    return min(last_s + (steps - 1) * step_s, (steps + uncounted + 1) * step_s)


def next_steps(pair: Pair, batch_s: float) -> int:
    """Return the steps of the next batches: those of the slower side in batch_s seconds.

    An odd number, so that the median is a sample; equal for both sides, so that the bias of a
    median of skewed samples is equal, too.
    """
    fitting = int(batch_s / max(median(pair.a), median(pair.b)))
    return min(MAX_STEPS, max(1, fitting - (fitting % 2 == 0)))


async def _pair(a: Side, b: Side, steps: int, *, a_first: bool) -> Pair:
    if a_first:
        ours = await a.run_batch(steps)
        return Pair(a=ours, b=await b.run_batch(steps), a_first=True)
    theirs = await b.run_batch(steps)
    return Pair(a=await a.run_batch(steps), b=theirs, a_first=False)
