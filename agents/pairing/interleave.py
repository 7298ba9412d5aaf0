"""Two sides take turns on one device until their ratio is known well enough."""

from __future__ import annotations

import random
import time
from collections.abc import Callable
from dataclasses import dataclass
from statistics import median
from typing import Protocol

from controller.contracts.pairs import Pair, PairedRatio, enough, ratio_of_pairs

TURN_S = 1.0
"""How long a turn lasts where steps are shorter: long against switching sides, short against
the drift that a pair cancels."""
MAX_STEPS = 199
MAX_PAIRS = 500
"""Both bound what is stored: a comparison is at most 200,000 samples."""


class Side(Protocol):
    """One of two things that are compared."""

    async def turn(self, steps: int) -> tuple[float, ...]:
        """Work for a turn of so many counted steps and return their samples, one or more.

        Called when the other side is at rest; at rest itself when it returns. Raises WorkerFault.
        """
        ...


@dataclass(frozen=True, slots=True)
class Plan:
    """When to stop, and how turns are dealt out."""

    width: float
    """Stop when the interval is narrower than this share of the ratio."""
    time_limit_s: float
    """Begin no further pair after so many seconds."""
    seed: str
    """Of the coin that decides which side goes first in a pair."""
    turn_s: float | None = TURN_S
    """None: a turn is one step, however long."""


@dataclass(frozen=True, slots=True)
class Standing:
    """What is known after a pair."""

    pairs: tuple[Pair, ...]
    ratio: PairedRatio
    elapsed_s: float


async def interleave(
    a: Side, b: Side, plan: Plan, tell: Callable[[Standing], None] = lambda _: None
) -> Standing:
    """Let two sides take turns until the plan is fulfilled; `tell` hears of each pair.

    Both sides take the same number of steps within a pair, and a coin decides which goes first:
    whatever else the device does then favours neither. Raises what a turn raises.
    """
    coin = random.Random(plan.seed)
    pairs: list[Pair] = []
    steps, started = 1, time.monotonic()
    while True:
        pairs.append(await _pair(a, b, steps, a_first=coin.random() < 0.5))
        elapsed = time.monotonic() - started
        standing = Standing(tuple(pairs), ratio_of_pairs(pairs), elapsed)
        tell(standing)
        if is_over(standing, plan):
            return standing
        if plan.turn_s is not None:
            steps = next_steps(pairs[-1], plan.turn_s)


def is_over(standing: Standing, plan: Plan) -> bool:
    """Whether the interval is narrow enough, or time or patience is up."""
    if standing.elapsed_s >= plan.time_limit_s or len(standing.pairs) >= MAX_PAIRS:
        return True
    return enough(standing.ratio, plan.width)


def next_steps(pair: Pair, turn_s: float) -> int:
    """Return the steps of the next turns: what the slower side does in turn_s seconds.

    An odd number, whose median is a sample; the same for both sides, so that a median of skewed
    samples leans no further on one side than on the other.
    """
    fitting = int(turn_s / max(median(pair.a), median(pair.b)))
    return min(MAX_STEPS, max(1, fitting - (fitting % 2 == 0)))


async def _pair(a: Side, b: Side, steps: int, *, a_first: bool) -> Pair:
    if a_first:
        ours = await a.turn(steps)
        return Pair(a=ours, b=await b.turn(steps), a_first=True)
    theirs = await b.turn(steps)
    return Pair(a=await a.turn(steps), b=theirs, a_first=False)
