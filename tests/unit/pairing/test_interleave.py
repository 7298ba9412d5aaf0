"""Turns, the coin and the decision to stop; and by simulation, how often intervals are right."""

from __future__ import annotations

import asyncio
import math
import random
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace

import pytest

from agents.pairing.interleave import MAX_STEPS, ComparisonState, Plan, interleave, next_steps
from controller.contracts.pair import Pair
from controller.stats.pairs import MIN_PAIRS

PLAN = Plan(width=0.03, time_limit_s=1e9, seed="1", batch_s=5.0)


@dataclass
class Scripted:
    """A Side whose samples are made up, and which notes its turns."""

    name: str
    sample: Callable[[], float]
    turns: list[tuple[str, int]] = field(default_factory=list)

    async def run_batch(self, steps: int) -> tuple[float, ...]:
        self.turns.append((self.name, steps))
        return tuple(self.sample() for _ in range(steps))


def run(a: Callable[[], float], b: Callable[[], float], plan: Plan = PLAN) -> ComparisonState:
    return asyncio.run(interleave(Scripted("a", a), Scripted("b", b), plan))


def test_a_coin_decides_who_goes_first_and_both_take_as_many_steps() -> None:
    turns: list[tuple[str, int]] = []
    a, b = Scripted("a", lambda: 0.3, turns), Scripted("b", lambda: 1.0, turns)
    plan = Plan(width=0.03, time_limit_s=0.0, seed="x", batch_s=5.0)
    one = asyncio.run(interleave(a, b, plan))
    assert len(one.pairs) == 1, "time was up at once"

    state = asyncio.run(interleave(a, b, Plan(1e-9, 1e9, "x", 5.0)))
    pairs = [turns[n : n + 2] for n in range(2, len(turns), 2)]
    assert all({first[0], second[0]} == {"a", "b"} for first, second in pairs)
    assert all(first[1] == second[1] for first, second in pairs)
    assert [p[0][1] for p in pairs] == [1] + [5] * (len(pairs) - 1), "5 s of the slower side"
    firsts = [first[0] == "a" for first, _ in pairs]
    assert firsts == [pair.a_first for pair in state.pairs]
    assert 0 < sum(firsts) < len(firsts)


@pytest.mark.parametrize(
    ("turn_s", "limit_s", "pairs"),
    [(5.0, 35.0, 3), (5.0, 30.0, 3), (5.0, 29.9, 2), (20.0, 30.0, 1), (1.0, 19.0, 9)],
)
def test_no_pair_is_begun_that_would_not_end_in_time(
    turn_s: float, limit_s: float, pairs: int
) -> None:
    now = 0.0

    def step() -> float:
        nonlocal now
        now += turn_s
        return 1 + now % 3  # never the same: the interval stays wide

    a, b = Scripted("a", step), Scripted("b", step)
    plan = Plan(width=1e-9, time_limit_s=limit_s, seed="1", batch_s=None)
    state = asyncio.run(interleave(a, b, plan, clock=lambda: now))
    assert [pair.ended_s for pair in state.pairs] == [2 * turn_s * (n + 1) for n in range(pairs)]
    assert state.elapsed_s <= max(limit_s, 2 * turn_s), "one pair tells how long a pair takes"


def test_what_is_compiled_in_the_first_pair_is_expected_of_no_other() -> None:
    now = 0.0

    @dataclass
    class Compiled:
        """A Side that compiles in the uncounted step of its first batch."""

        compile_s: float

        async def run_batch(self, steps: int) -> tuple[float, ...]:
            nonlocal now
            now += self.compile_s + (1 + steps) * 0.5
            self.compile_s = 0.0
            return (0.5 + now % 0.3,) * steps

    plan = Plan(width=1e-9, time_limit_s=250.0, seed="1", batch_s=1.0)
    state = asyncio.run(interleave(Compiled(100.0), Compiled(100.0), plan, clock=lambda: now))
    first, *others = state.pairs
    assert first.ended_s == 202.0
    assert len(others) == (250 - 202) / 2
    assert state.elapsed_s == plan.time_limit_s


def test_steps_whose_data_was_loaded_ahead_are_expected_of_each_pair() -> None:
    now = 0.0

    @dataclass
    class Loading:
        """A Side with 33 uncounted steps a batch, of which nothing is compiled."""

        async def run_batch(self, steps: int) -> tuple[float, ...]:
            nonlocal now
            now += (33 + steps) * 3.0
            return (3.0 + now % 0.7,) * steps

    plan = Plan(width=1e-9, time_limit_s=400.0, seed="1", batch_s=1.0, uncounted=33)
    state = asyncio.run(interleave(Loading(), Loading(), plan, clock=lambda: now))
    assert len(state.pairs) == 1
    assert state.next_pair_s >= 2 * 34 * 3.0, "what the reason for too few pairs counts with"
    enough_s = asyncio.run(
        interleave(Loading(), Loading(), replace(plan, time_limit_s=430.0), clock=lambda: now)
    )
    assert len(enough_s.pairs) == 2


@pytest.mark.parametrize(("limit_s", "pairs"), [(2.3, 1), (2.5, 2), (4.5, 3)])
def test_the_second_pair_is_expected_to_have_all_its_steps(limit_s: float, pairs: int) -> None:
    now = 0.0

    @dataclass
    class Short:
        """A Side whose steps all take as long, one uncounted step a batch."""

        async def run_batch(self, steps: int) -> tuple[float, ...]:
            nonlocal now
            now += (1 + steps) * 0.1
            return (0.1,) * steps

    plan = Plan(width=0.0, time_limit_s=limit_s, seed="1", batch_s=1.0)
    state = asyncio.run(interleave(Short(), Short(), plan, clock=lambda: now))
    assert [len(pair.a) for pair in state.pairs] == [1, 9, 9][:pairs]
    assert state.elapsed_s <= limit_s


def test_the_same_seed_tosses_the_same_coins() -> None:
    orders = [[p.a_first for p in run(lambda: 1.0, lambda: 2.0).pairs] for _ in range(2)]
    assert orders[0] == orders[1]


def test_it_stops_when_the_interval_is_narrow_and_never_before_enough_pairs() -> None:
    state = run(lambda: 1.0, lambda: 2.0)
    assert len(state.pairs) == MIN_PAIRS
    assert state.ratio.value == pytest.approx(2.0)


def test_each_pair_is_told_of() -> None:
    heard: list[ComparisonState] = []
    a, b = Scripted("a", lambda: 1.0), Scripted("b", lambda: 1.0)
    state = asyncio.run(interleave(a, b, PLAN, heard.append))
    assert [len(h.pairs) for h in heard] == list(range(1, MIN_PAIRS + 1))
    assert heard[-1] == state


@pytest.mark.parametrize(
    ("a", "b", "steps"),
    [(1.0, 0.5, 1), (0.4, 0.3, 1), (0.3, 0.1, 3), (0.24, 0.1, 3), (1e-6, 1e-6, MAX_STEPS)],
)
def test_turns_are_an_odd_number_of_steps_of_the_slower_side(
    a: float, b: float, steps: int
) -> None:
    assert next_steps(Pair(a=(a,), b=(b,), a_first=True), batch_s=1.0) == steps
    assert next_steps(Pair(a=(b,), b=(a,), a_first=True), batch_s=1.0) == steps


def test_a_turn_of_one_step_stays_one_step() -> None:
    turns: list[tuple[str, int]] = []
    a, b = Scripted("a", lambda: 1e-3, turns), Scripted("b", lambda: 1e-3, turns)
    asyncio.run(interleave(a, b, Plan(0.03, 1e9, "1", batch_s=None)))
    assert {steps for _, steps in turns} == {1}


# --- by simulation -----------------------------------------------------------------------------

Noise = Iterator[float]


def bursts(generator: random.Random) -> Noise:
    """Another process comes and goes, slows steps by up to a factor of 2, and stays a while."""
    busy, slowdown = False, 0.0
    while True:
        if generator.random() < 0.05:
            busy, slowdown = not busy, generator.random()
        yield math.log1p(slowdown * busy) + generator.gauss(0, 0.01)


def drifting(generator: random.Random) -> Noise:
    """Steps that resemble the ones before them."""
    level = 0.0
    while True:
        level = 0.9 * level + generator.gauss(0, 0.02)
        yield level


def spikes(generator: random.Random) -> Noise:
    """Skewed times, one in twenty far out."""
    while True:
        yield generator.expovariate(20) * (20 if generator.random() < 0.05 else 1)


def simulated(effect: float, noise: Callable[[random.Random], Noise], seed: str) -> ComparisonState:
    """Compare two sides that differ by an effect and meet one and the same noise."""
    shared = noise(random.Random(seed))
    plan = Plan(width=0.03, time_limit_s=1e9, seed=seed, batch_s=5.0)

    def stop_after_60_pairs(state: ComparisonState) -> None:
        if len(state.pairs) == 60:
            raise _TimeIsUp(state)

    a = Scripted("a", lambda: math.exp(next(shared)))
    b = Scripted("b", lambda: (1 + effect) * math.exp(next(shared)))
    try:
        return asyncio.run(interleave(a, b, plan, stop_after_60_pairs))
    except _TimeIsUp as up:
        return up.state


class _TimeIsUp(Exception):
    def __init__(self, state: ComparisonState) -> None:
        self.state = state


@pytest.mark.parametrize("noise", [bursts, drifting, spikes])
def test_intervals_hold_the_truth_and_verdicts_are_right(
    noise: Callable[[random.Random], Noise],
) -> None:
    """Stopping included. 95 % is promised; of 400 comparisons at least 93 % have to hold."""
    covered = false = shown = 0
    effects = (0.0, 0.02, 0.05, 0.10) * 100
    for number, effect in enumerate(effects):
        found = simulated(effect, noise, f"{number}").ratio
        covered += found.low <= 1 + effect <= found.high
        false += found.direction not in (0, int(effect > 0))
        shown += found.direction == 1
    assert covered / len(effects) >= 0.93
    assert false / len(effects) <= 0.06
    assert shown / len(effects) >= 0.35, "of the three effects in four, about half must be seen"
