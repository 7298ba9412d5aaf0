"""RetinaNet's own operators have gradients, and refuse the gradients of these: they would be wrong,
since what a backward pass keeps is taken for constant."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch import Tensor, nn

from models.retinanet.background_loss import background_focal_loss
from models.retinanet.pointwise import PointwiseConv2d
from models.retinanet.unfolded import UnfoldedConv2d


def background(x: Tensor) -> Tensor:
    counted, positives = torch.ones(9, dtype=torch.bool), (torch.tensor([1]), torch.tensor([2]))
    return background_focal_loss(x.flatten(0, 1), counted, positives, 0.25)


def pointwise(x: Tensor) -> Tensor:
    found: Tensor = PointwiseConv2d(nn.Conv2d(8, 4, 1))(x.view(1, 3, 3, 8).permute(0, 3, 1, 2))
    return found


def unfolded(x: Tensor) -> Tensor:
    found: Tensor = UnfoldedConv2d(nn.Conv2d(8, 4, 3, padding=1))(x, [(3, 3)])
    return found


@pytest.mark.parametrize("operator", [background, pointwise, unfolded])
def test_a_second_derivative_is_refused(operator: Callable[[Tensor], Tensor]) -> None:
    x = torch.linspace(-1, 1, 72).view(1, 9, 8).requires_grad_()
    loss = operator(x).square().sum()
    (gradient,) = torch.autograd.grad(loss, x, create_graph=True)
    assert gradient.abs().sum() > 0
    with pytest.raises(RuntimeError, match="differentiate twice"):
        gradient.square().sum().backward()  # type: ignore[no-untyped-call] # torch's
