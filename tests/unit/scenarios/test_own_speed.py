"""How fast the machine is beside what is timed."""

from __future__ import annotations

import time
from collections.abc import Callable

import pytest
import torch
from torch import Tensor

from agents.backends.own_speed import LEAST_CALLS, LEAST_S, MOST_CALLS, SIZE, product_flops


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
    # The first sets up; another may be due to the rounding of the sum.
    assert calls <= found.calls - 1 <= calls + 1
    assert found.dtypes == {torch.bfloat16}
