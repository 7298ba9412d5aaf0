"""Forward-mode derivatives, which the compiled operators don't have: plain torch computes them."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch import Tensor
from torch.autograd import forward_ad

from kernels.ops.fold_maps import fold_maps
from kernels.ops.frozen_batch_norm import frozen_batch_norm
from kernels.ops.sigmoid_focal_loss import sigmoid_focal_loss
from kernels.ops.sigmoid_focal_loss_from_labels import sigmoid_focal_loss_from_labels
from kernels.ops.transpose import transpose
from kernels.ops.unfold_maps import unfold_maps
from kernels.ops.winograd_convolution import winograd_convolution

# torch's own decompositions for forward mode are scripted when the first level is entered.
pytestmark = pytest.mark.filterwarnings("ignore:`torch.jit.script` is deprecated")

Function = Callable[[Tensor], Tensor]
MAPS = [(2, 3)]


def random(*shape: int, seed: int = 0) -> Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed))


def norm(x: Tensor) -> Tensor:
    return frozen_batch_norm(x, torch.full((4,), 2.0), torch.ones(4), x, relu=True)


def dense_loss(x: Tensor) -> Tensor:
    return sigmoid_focal_loss(x, torch.eye(6, 4, dtype=x.dtype), reduction="sum")


def loss_of_labels(x: Tensor) -> Tensor:
    return sigmoid_focal_loss_from_labels(x, torch.arange(6) % 6 - 1)


def unfold(x: Tensor) -> Tensor:
    return unfold_maps(x[None], MAPS)


def fold(x: Tensor) -> Tensor:
    return fold_maps(x[None, :, None].expand(1, 6, 9, 4), MAPS)


def convolution(x: Tensor) -> Tensor:
    return winograd_convolution(x[None], MAPS, random(5, 4, 3, 3, seed=2))


OPERATORS = [norm, dense_loss, loss_of_labels, transpose, unfold, fold, convolution]


def numeric(function: Function, x: Tensor, tangent: Tensor) -> Tensor:
    """Return the derivative along a tangent by central differences in float64."""
    x, step = x.double(), tangent.double() * 1e-5
    return (function(x + step) - function(x - step)) / 2e-5


@pytest.mark.parametrize("function", OPERATORS)
def test_a_derivative_along_a_tangent_is_not_lost(variant: str, function: Function) -> None:
    x, tangent = random(6, 4), random(6, 4, seed=1)
    found: Tensor = torch.func.jvp(function, (x,), (tangent,))[1]
    with forward_ad.dual_level():
        of_dual = forward_ad.unpack_dual(function(dual(x, tangent))).tangent  # type: ignore[no-untyped-call] # torch's
    # fp32 sums of up to 36 products of numbers about 1.
    wanted = numeric(function, x, tangent)
    torch.testing.assert_close(found.double(), wanted, rtol=1e-4, atol=1e-5)
    assert of_dual is not None
    torch.testing.assert_close(of_dual.double(), wanted, rtol=1e-4, atol=1e-5)


def dual(primal: Tensor, tangent: Tensor) -> Tensor:
    made: Tensor = forward_ad.make_dual(primal, tangent)  # type: ignore[no-untyped-call] # torch's
    return made


@pytest.mark.parametrize("function", OPERATORS)
def test_a_tangent_of_an_upstream_gradient_is_not_lost(variant: str, function: Function) -> None:
    """The forward pass is over, and ran compiled: its gradient refuses."""
    x = random(6, 4).requires_grad_()
    y = function(x)
    upstream = torch.ones_like(y)
    with forward_ad.dual_level(), pytest.raises(NotImplementedError, match="forward"):
        torch.autograd.grad(y, x, dual(upstream, upstream))
