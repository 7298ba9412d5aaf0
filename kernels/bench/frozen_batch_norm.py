"""Frozen batch norm with residual and ReLU on an activation of ResNeXt50 at 256 px, batch 2."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import torch
from torch import Tensor

from kernels.bench.case import (
    DTYPES,
    Case,
    Differentiated,
    Operator,
    bytes_of,
    compiled,
    differ,
)
from kernels.ops.frozen_batch_norm import OP, frozen_batch_norm
from kernels.reference.frozen_batch_norm import frozen_batch_norm as plain

BATCH, CHANNELS, SIDE = 2, 512, 32
SHAPES = tuple(
    f"{BATCH}x{CHANNELS}x{SIDE}x{SIDE} {layout}" for layout in ("channels_last", "contiguous")
)

ERROR = {"fp32": 1e-6, "bf16": 2.0**-8}
"""Two roundings of the dtype, relative to the largest value."""

Norm = Callable[[Tensor, Tensor, Tensor, Tensor, bool], object]


def case(dtype: str, shape: str) -> Case:
    """Return the case of frozen_batch_norm: residual and ReLU, forward and backward."""
    layout = torch.channels_last if shape.endswith("last") else torch.contiguous_format
    generator = torch.Generator().manual_seed(3)

    def some() -> Tensor:
        values = torch.randn(BATCH, CHANNELS, SIDE, SIDE, generator=generator)
        return values.to(DTYPES[dtype]).contiguous(memory_format=layout)

    x, residual, upstream = some().requires_grad_(), some().requires_grad_(), some()
    scale, shift = torch.rand(2, CHANNELS, generator=generator).unbind()

    def forward(norm: Norm) -> Tensor:
        y = norm(x, scale, shift, residual, True)
        if not isinstance(y, Tensor):
            raise TypeError(f"a norm gives a tensor, not {type(y).__name__}")
        return y

    def backward(y: Tensor) -> tuple[Tensor, tuple[Tensor, ...]]:
        return y.detach(), torch.autograd.grad(y, (x, residual), upstream)

    def work(norm: Norm) -> Differentiated[Tensor]:
        return Differentiated(partial(forward, norm), backward)

    def objections() -> list[str]:
        y, gradients = backward(forward(frozen_batch_norm))
        exact = [t.detach().double().requires_grad_() for t in (x, residual)]
        truth = plain(exact[0], scale.double(), shift.double(), exact[1], True)
        true_gradients = torch.autograd.grad(truth, exact, upstream.double() * (y > 0))
        found = differ("output", y, truth.detach(), ERROR[dtype])
        for name, mine, true in zip(("x", "residual"), gradients, true_gradients, strict=True):
            found += differ(f"gradient of {name}", mine, true, ERROR[dtype])
        return found

    return Case(
        shape=shape,
        kernel=work(frozen_batch_norm),
        baselines={"eager": work(plain), "compile": work(compiled(plain))},
        # Forward: x, residual → y. Backward: upstream, y → two gradients.
        moved_bytes=7 * bytes_of(x),
        passes={"forward": 3 * bytes_of(x), "backward": 4 * bytes_of(x)},
        largest_bytes=bytes_of(x),
        objections=objections,
    )


OPERATOR = Operator(OP.dtypes, SHAPES, case)
