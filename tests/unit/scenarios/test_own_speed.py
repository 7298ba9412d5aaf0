"""How fast the machine is beside what is timed."""

from __future__ import annotations

import time
from collections.abc import Callable

import pytest
import torch
from torch import Tensor

from agents.backends.own_speed import (
    LEAST_CALLS,
    LEAST_S,
    MOST_CALLS,
    MOST_SPELLS,
    SIZE,
    product_flops,
)


class Clocked:
    """Products that take planted seconds, on a clock of their own."""

    def __init__(self, seconds: Callable[[int], float]) -> None:
        self.now_s, self.calls, self.dtypes = 0.0, 0, set[torch.dtype]()
        self._seconds = seconds

    def mm(self, a: Tensor, b: Tensor, *, out: Tensor) -> None:
        assert a.shape == b.shape == out.shape == (SIZE, SIZE)
        self.dtypes.add(a.dtype)
        self.now_s += self._seconds(self.calls)
        self.calls += 1


@pytest.fixture
def clocked(monkeypatch: pytest.MonkeyPatch) -> Callable[[Callable[[int], float]], Clocked]:
    def plant(seconds: Callable[[int], float]) -> Clocked:
        found = Clocked(seconds)
        monkeypatch.setattr(torch, "mm", found.mm)
        monkeypatch.setattr(time, "perf_counter", lambda: found.now_s)
        monkeypatch.setattr(time, "sleep", lambda _: None)
        return found

    return plant


def test_the_quickest_call_counts(
    clocked: Callable[[Callable[[int], float]], Clocked],
) -> None:
    found = clocked(lambda call: 5.0 if call == 0 else 0.004 if call % 2 else 0.002)
    assert product_flops("fp32") == pytest.approx(2 * SIZE**3 / 0.002)
    assert found.dtypes == {torch.float32}


@pytest.mark.parametrize(
    ("call_s", "calls"), [(1.0, LEAST_CALLS), (LEAST_S / 40, 40), (1e-9, MOST_CALLS)]
)
def test_calls_are_enough_and_not_long(
    clocked: Callable[[Callable[[int], float]], Clocked], call_s: float, calls: int
) -> None:
    found = clocked(lambda _: call_s)
    product_flops("bf16")
    # The first sets up; another of each spell may be due to the rounding of the sum.
    assert 2 * calls <= found.calls - 1 <= 2 * (calls + 1)
    assert found.dtypes == {torch.bfloat16}


def test_a_spell_on_one_core_says_nothing_of_the_speed(
    clocked: Callable[[Callable[[int], float]], Clocked],
) -> None:
    found = clocked(lambda call: 2.0 if call <= LEAST_CALLS else 1.0)
    assert product_flops("fp32") == pytest.approx(2 * SIZE**3 / 1.0)
    assert found.calls - 1 == 3 * LEAST_CALLS


def test_a_machine_that_is_at_no_speed_is_not_asked_for_ever(
    clocked: Callable[[Callable[[int], float]], Clocked],
) -> None:
    found = clocked(lambda call: 1.0 + call)
    assert product_flops("fp32") == pytest.approx(2 * SIZE**3 / 2.0)
    assert found.calls - 1 == MOST_SPELLS * LEAST_CALLS
