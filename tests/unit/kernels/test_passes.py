"""The two passes of an operator with a gradient, timed apart."""

from __future__ import annotations

from dataclasses import dataclass, field

import pytest
import torch
from torch import Tensor

from agents.kernel_bench import measure
from agents.kernel_bench.measure import Identity, percentiles, seconds_in, steady
from agents.kernel_bench.worker import with_passes
from agents.pairing.interleave import ComparisonState
from controller.cli import kernels as command
from controller.contracts.errors import UserError
from controller.contracts.pair import Pair
from controller.stats.pairs import PairedRatio
from kernels.bench.case import COMPILED, Case, Differentiated, Direction
from kernels.bench.registry import operators

WITH_GRADIENT = {
    "frozen_batch_norm",
    "sigmoid_focal_loss",
    "sigmoid_focal_loss_from_labels",
    "unfold_maps",
    "winograd_convolution",
}
FORWARD_S, BACKWARD_S = 3.0, 5.0


@dataclass
class Clock:
    """A clock that only the passes move."""

    now: float = 0.0
    ran: list[str] = field(default_factory=list)

    def perf_counter(self) -> float:
        return self.now

    def forward(self) -> str:
        self.now += FORWARD_S
        self.ran.append("forward")
        return "made"

    def backward(self, made: str) -> None:
        assert made == "made"
        self.now += BACKWARD_S
        self.ran.append("backward")


def some_case(op: str) -> Case:
    operator = operators()[op]
    return operator.case(operator.dtypes[0], operator.shapes[0])


@pytest.mark.parametrize(
    ("direction", "expected_s", "ran"),
    [
        ("both", FORWARD_S + BACKWARD_S, ["forward", "backward"]),
        ("forward", FORWARD_S, ["forward"]),
        ("backward", BACKWARD_S, ["forward", "backward"]),
    ],
)
def test_only_the_chosen_pass_is_timed(
    direction: Direction, expected_s: float, ran: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = Clock()
    monkeypatch.setattr(measure, "time", clock)
    assert seconds_in(direction, Differentiated(clock.forward, clock.backward)) == expected_s
    assert clock.ran == ran


def test_work_without_a_gradient_has_no_passes() -> None:
    with pytest.raises(TypeError, match="no backward pass of its own"):
        seconds_in("backward", lambda: None)


@pytest.mark.parametrize("op", sorted(operators()))
def test_operators_with_a_gradient_can_be_timed_by_pass_and_others_say_that_they_cannot(
    op: str,
) -> None:
    case = some_case(op)
    identity = Identity(op, "fp32", "avx2", "forward")
    if op not in WITH_GRADIENT:
        assert not isinstance(case.kernel, Differentiated), "its passes have no bytes"
        with pytest.raises(UserError, match=f"time the forward pass of {op}: it has no gradient"):
            with_passes(case, identity)
        return
    assert with_passes(case, identity) is case
    plain = [work for name, work in case.baselines.items() if not name.startswith(COMPILED)]
    for work in (case.kernel, *plain):
        assert isinstance(work, Differentiated)
        assert all(map(torch.equal, tensors(work()), tensors(work.backward(work.forward()))))
    # No pass alone moves less than what must be read and written of it in both together.
    passes = [case.bytes_in("forward"), case.bytes_in("backward")]
    assert max(passes) <= case.bytes_in("both") <= sum(passes)


def test_a_pass_is_of_one_operator() -> None:
    with pytest.raises(UserError) as told:
        command.bench(direction="backward")
    assert str(told.value) == (
        "cannot time the backward pass: no operator is named. "
        "Name an operator with a gradient, as sigmoid_focal_loss."
    )


def tensors(found: object) -> list[Tensor]:
    """Return all tensors of nested tuples."""
    if isinstance(found, Tensor):
        return [found]
    assert isinstance(found, tuple)
    return [tensor for part in found for tensor in tensors(part)]


def test_what_a_warm_up_left_out_is_in_no_percentile() -> None:
    slow, quick = (Pair(a=(2 * s, 2 * s), b=(s, s), a_first=True) for s in (9.0, 1.0))
    ratio = PairedRatio(0.5, 0.5, 0.5, pairs=4, warmup_pairs=2, steady=True)
    state = ComparisonState((slow, slow, *[quick] * 4), ratio, elapsed_s=1.0, next_pair_s=1.0)
    assert percentiles(steady(state)) == ([2.0] * 3, [1.0] * 3)
