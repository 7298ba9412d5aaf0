"""Comparisons with a known outcome: real timed work, a planted difference, a random load beside it.

B does more work of the same kind than A, so the true ratio of their times is known without
measuring; times are never altered. Batches, pairs, statistics and the stopping rule are those of
every comparison, only shorter.
"""

from __future__ import annotations

import asyncio
import subprocess
import sys
import time
from collections.abc import AsyncGenerator, Iterator
from contextlib import aclosing, contextmanager
from dataclasses import dataclass
from itertools import product, repeat

from agents.pairing.interleave import Plan, interleave
from controller.contracts.bench import PlantedTrial, PlantedTrials
from controller.platform.helper_loop import run_until_signal
from controller.platform.helper_main import Replies, serve
from controller.platform.programs import python_module

STEP_S = 0.5e-3
"""Seconds of a step of A on an undisturbed core."""
BATCH_S = 4e-3
TRIAL_S = 2.0
"""Time limit of one comparison."""
TRIES = 200
"""Tries, of which the least disturbed one counts."""


@dataclass(frozen=True, slots=True)
class Work:
    """A Side that sums ones: its time depends only on their number."""

    amount: int

    async def run_batch(self, steps: int) -> tuple[float, ...]:
        """See Side.run_batch."""
        return tuple(_seconds(self.amount) for _ in range(steps))


def calibrated_amount(step_s: float) -> int:
    """Return the amount of work that takes step_s seconds when undisturbed."""
    tried = 10_000
    fastest = min(_seconds(tried) for _ in range(TRIES))
    return max(1000, round(tried * step_s / fastest))


async def compare_planted(amount: int, effect: float, width: float, seed: str) -> PlantedTrial:
    """Compare an amount of work with a larger one."""
    more = round(amount * (1 + effect))
    plan = Plan(width=width, time_limit_s=TRIAL_S, seed=seed, batch_s=BATCH_S)
    state = await interleave(Work(amount), Work(more), plan)
    found = state.ratio
    return PlantedTrial(
        effect=effect,
        truth=more / amount,
        ratio=found.value,
        low=found.low if found.bounded else None,
        high=found.high if found.bounded else None,
        direction=found.direction,
        pairs=len(state.pairs),
    )


async def trials(wanted: PlantedTrials) -> AsyncGenerator[PlantedTrial, None]:
    """Run comparisons until all are done or time is up; effects alternate, so that all meet equal
    loads."""
    ends_at = time.monotonic() + wanted.time_limit_s
    amount = calibrated_amount(STEP_S)
    with background(wanted.loads, wanted.seed):
        for number, effect in product(range(wanted.trials), wanted.effects):
            seed = f"{wanted.seed}/{number}/{effect}"
            yield await compare_planted(amount, effect, wanted.width, seed)
            await asyncio.sleep(0)  # where ^C ends it
            if time.monotonic() >= ends_at:
                return


@contextmanager
def background(processes: int, seed: int) -> Iterator[None]:
    """Load the host at random during this context."""
    command = python_module("agents.pairing.load")
    started = [
        subprocess.Popen([*command, f"{seed}/{number}"], stdin=subprocess.PIPE)
        for number in range(processes)
    ]
    try:
        yield
    finally:
        for process in started:
            process.kill()
            process.communicate()


def _seconds(amount: int) -> float:
    started = time.perf_counter()
    sum(repeat(1, amount))
    return time.perf_counter() - started


def handle(wanted: PlantedTrials, replies: Replies) -> None:
    """Answer with a PlantedTrial for each comparison as it ends."""

    async def run() -> None:
        async with aclosing(trials(wanted)) as found:
            async for trial in found:
                replies.answer(trial)

    run_until_signal(run())


if __name__ == "__main__":
    sys.exit(serve(PlantedTrials, handle))
