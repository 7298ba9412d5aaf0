"""Adam on fp32 masters of weights in plain torch."""

from __future__ import annotations

from collections.abc import Sequence

from torch import Tensor


def adam_step(
    weights: Sequence[Tensor],
    gradients: Sequence[Tensor],
    masters: Sequence[Tensor],
    means: Sequence[Tensor],
    squares: Sequence[Tensor],
    *,
    step: int,
    learning_rate: float,
    betas: tuple[float, float] = (0.9, 0.999),
    eps: float = 1e-8,
) -> None:
    """Update all tensors but the gradients: see kernels.ops.adam_step."""
    length, root = learning_rate / (1 - betas[0] ** step), (1 - betas[1] ** step) ** 0.5
    each = zip(weights, gradients, masters, means, squares, strict=True)
    for weight, gradient, master, mean, square in each:
        g = gradient.to(master.dtype)
        mean.lerp_(g, 1 - betas[0])
        square.mul_(betas[1]).addcmul_(g, g, value=1 - betas[1])
        master.addcdiv_(mean, (square.sqrt() / root).add_(eps), value=-length)
        if weight is not master:
            weight.copy_(master)
