import gc
import math
import weakref

import numpy as np
import pytest
import torch
from torch import Tensor
from torch.optim import Optimizer

from models.optimizers import Lamb, build_optimizer, memory_order

NAMES = ("adam", "sgd", "lamb")


def parameters() -> list[Tensor]:
    """Return one of each awkward kind: a matrix, channels-last, all zero, a scalar, no gradient."""
    generator = torch.Generator().manual_seed(8)
    image = torch.randn(4, 3, 3, 3, generator=generator).to(memory_format=torch.channels_last)
    made = [torch.randn(37, 5, generator=generator), image, torch.zeros(6), torch.tensor(2.0)]
    return [x.requires_grad_() for x in (*made, torch.ones(2))]


def steps(
    optimizer: Optimizer, learning: list[Tensor], schedule: tuple[float, ...] = ()
) -> list[Tensor]:
    """Do five steps, or one at each learning rate of a schedule."""
    generator = torch.Generator().manual_seed(9)
    for rate in schedule or (None,) * 5:
        if rate is not None:
            for group in optimizer.param_groups:
                group["lr"] = rate
        for parameter in learning[:-1]:
            # As indexed, whatever the parameter's layout: torch's fused kernels read it wrong.
            parameter.grad = torch.randn(parameter.shape, generator=generator)
        optimizer.step()
    return [p.detach() for p in learning]


@pytest.mark.parametrize("name", NAMES)
def test_a_fused_optimizer_takes_the_plain_one_s_steps(name: str) -> None:
    plain, fused = (
        steps(build_optimizer(name, how, learning, 0.01), learning)
        for how, learning in ((False, parameters()), (True, parameters()))
    )
    for mine, theirs, start in zip(fused, plain, parameters(), strict=True):
        # A few roundings of 24 bits a step, five steps.
        torch.testing.assert_close(mine, theirs, rtol=1e-5, atol=1e-6)
        assert torch.equal(theirs, start) == (start.numel() == 2)  # the one without a gradient


@pytest.mark.parametrize("name", NAMES)
def test_a_fused_optimizer_takes_a_schedule_s_learning_rates(name: str) -> None:
    schedule = (0.0, 0.001, 0.01, 0.01)
    plain, fused, still = (
        steps(build_optimizer(name, how, learning, 0.5), learning, rates)
        for how, learning, rates in (
            (False, parameters(), schedule),
            (True, parameters(), schedule),
            (True, parameters(), (0.0,)),
        )
    )
    for mine, theirs in zip(fused, plain, strict=True):
        torch.testing.assert_close(mine, theirs, rtol=1e-5, atol=1e-6)
    for moved, start in zip(still, parameters(), strict=True):
        assert torch.equal(moved, start), "at a learning rate of 0"


@pytest.mark.parametrize("fused", [False, True])
@pytest.mark.parametrize("name", NAMES)
def test_no_gradient_outlives_zero_grad(name: str, fused: bool) -> None:
    """Those of the step before were there through the next passes, in its peak of memory."""
    learning = parameters()
    optimizer = build_optimizer(name, fused, learning, 0.01)
    gone: list[int] = []
    for number, parameter in enumerate(learning):
        order = memory_order(parameter)
        array = np.ones([parameter.shape[k] for k in order], np.float32)
        weakref.finalize(array, gone.append, number)
        as_indexed = [order.index(k) for k in range(len(order))]
        parameter.grad = torch.from_numpy(array).permute(as_indexed)
        del array
    optimizer.step()
    assert gone == []
    optimizer.zero_grad(set_to_none=True)
    gc.collect()
    assert sorted(gone) == [*range(len(learning))]


def test_lamb_by_hand() -> None:
    w = torch.tensor([3.0, 4.0], requires_grad=True)
    w.grad = torch.tensor([0.5, -0.25])
    Lamb([w], 0.1).step()
    # In the first step the corrected moments are g and g²: Adam's direction is the sign of g.
    direction = [0.5 / (0.5 + 1e-6) + 0.03, -0.25 / (0.25 + 1e-6) + 0.04]
    trust = 5.0 / math.hypot(*direction)
    expected = [3 - 0.1 * trust * direction[0], 4 - 0.1 * trust * direction[1]]
    assert w.tolist() == pytest.approx(expected, rel=1e-6)  # fp32


def test_lamb_leaves_zero_at_the_learning_rate() -> None:
    w = torch.zeros(2, requires_grad=True)
    w.grad = torch.tensor([2.0, 0.0])
    Lamb([w], 0.1).step()
    assert w.tolist() == pytest.approx([-0.1, 0.0], rel=1e-5)


@pytest.mark.parametrize("fused", [False, True])
def test_an_unknown_optimizer_is_named(fused: bool) -> None:
    with pytest.raises(ValueError, match="'rmsprop': expected adam, sgd, lamb"):
        build_optimizer("rmsprop", fused, parameters(), 0.1)
