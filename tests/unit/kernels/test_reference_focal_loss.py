import math

import pytest
import torch

from kernels.reference.focal_loss import Reduction, sigmoid_focal_loss

LOGITS = (-30.0, -4.0, -0.5, 0.0, 0.3, 2.0, 30.0)


def closed_form(x: float, positive: bool, alpha: float, gamma: float) -> tuple[float, float]:
    """Loss and its derivative by the paper's appendix; the negative case mirrors the positive."""
    sign, weight = (1, alpha) if positive else (-1, 1 - alpha)
    p = 1 / (1 + math.exp(-sign * x))
    log_p = -math.log1p(math.exp(-sign * x))
    loss = -weight * (1 - p) ** gamma * log_p
    slope = sign * weight * (1 - p) ** gamma * (gamma * p * log_p + p - 1)
    return loss, slope


@pytest.mark.parametrize(("alpha", "gamma"), [(0.25, 2.0), (0.6, 1.5), (0.5, 0.0)])
@pytest.mark.parametrize("positive", [True, False])
def test_loss_and_gradient_are_the_closed_form(alpha: float, gamma: float, positive: bool) -> None:
    logits = torch.tensor(LOGITS, dtype=torch.float64, requires_grad=True)
    targets = torch.full_like(logits, float(positive))

    loss = sigmoid_focal_loss(logits, targets, alpha, gamma)
    torch.autograd.backward(loss.sum())

    expected = torch.tensor(
        [closed_form(x, positive, alpha, gamma) for x in LOGITS], dtype=torch.float64
    )
    # float64 leaves about 1e-16 in 1 - p_t; the smallest terms here are below that.
    torch.testing.assert_close(loss.detach(), expected[:, 0], rtol=1e-10, atol=1e-14)
    torch.testing.assert_close(logits.grad, expected[:, 1], rtol=1e-10, atol=1e-14)


def test_gradient_agrees_with_finite_differences_for_any_shape_and_soft_targets() -> None:
    generator = torch.Generator().manual_seed(1)
    logits = torch.randn(2, 3, 4, dtype=torch.float64, generator=generator, requires_grad=True)
    targets = torch.rand(2, 3, 4, dtype=torch.float64, generator=generator)

    assert torch.autograd.gradcheck(lambda x: sigmoid_focal_loss(x, targets), (logits,))


def test_negative_alpha_leaves_decisions_unweighted() -> None:
    logits = torch.tensor([0.0, 0.0])
    targets = torch.tensor([0.0, 1.0])

    loss = sigmoid_focal_loss(logits, targets, alpha=-1, gamma=1)

    torch.testing.assert_close(loss, torch.full((2,), 0.5 * math.log(2)))


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_extreme_logits_stay_finite(dtype: torch.dtype) -> None:
    logits = torch.tensor([-1e4, -100.0, 100.0, 1e4], dtype=dtype, requires_grad=True)
    for target in (0.0, 1.0):
        loss = sigmoid_focal_loss(logits, torch.full_like(logits, target), reduction="sum")
        (gradient,) = torch.autograd.grad(loss, logits)
        assert loss.isfinite()
        assert gradient.isfinite().all()


def test_reductions() -> None:
    logits = torch.linspace(-3, 3, 12).reshape(3, 4)
    targets = torch.eye(3, 4)
    each = sigmoid_focal_loss(logits, targets)

    assert each.shape == (3, 4)
    torch.testing.assert_close(sigmoid_focal_loss(logits, targets, reduction="sum"), each.sum())
    torch.testing.assert_close(sigmoid_focal_loss(logits, targets, reduction="mean"), each.mean())


def test_unknown_reduction_is_refused() -> None:
    unknown: Reduction = "max"  # type: ignore[assignment]
    with pytest.raises(ValueError, match="'max'"):
        sigmoid_focal_loss(torch.zeros(1), torch.zeros(1), reduction=unknown)
