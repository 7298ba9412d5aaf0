"""The last convolution of RetinaNet's classes, and one of a tower, at 256 px, batch 2."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial

import torch
from torch import Tensor

from kernels.bench.case import Case, Differentiated, Operator, bytes_of, compiled, differ
from kernels.bench.inputs import CELLS, CHANNELS, IMAGES, MAPS, some_numbers
from kernels.ops.winograd_convolution import OP, winograd_convolution
from kernels.reference.map_convolution import map_convolution as plain

OUTS = {"logits": 2376, "tower": CHANNELS}
"""Shape → channels made: nine anchors of 264 classes, or a tower's."""
SHAPES = tuple(f"{IMAGES}x{CELLS}x{CHANNELS} {name}" for name in OUTS)

ERROR = {"fp32": 2e-5, "bf16": 3e-2}
"""Largest error, relative to the largest value: of fp32's 24 bits, the transforms for 4x4 outputs
cost about four beside the sum's; of bf16's 8, those for 2x2 cost one, and products are rounded."""

Convolution = Callable[[Tensor, Sequence[tuple[int, int]], Tensor, Tensor], object]


def case(dtype: str, shape: str) -> Case:
    """Return the case of winograd_convolution with a bias, forward and backward."""
    outs = OUTS[shape.split()[-1]]
    x = some_numbers(dtype, IMAGES, CELLS, CHANNELS).requires_grad_()
    weight = some_numbers("fp32", outs, CHANNELS, 3, 3) / 48
    weight = weight.to(memory_format=torch.channels_last).requires_grad_()
    bias = some_numbers("fp32", outs).requires_grad_()
    upstream = some_numbers(dtype, IMAGES, CELLS, outs) / 2

    def forward(convolve: Convolution) -> Tensor:
        y = convolve(x, MAPS, weight, bias)
        if not isinstance(y, Tensor):
            raise TypeError(f"a convolution gives a tensor, not {type(y).__name__}")
        return y

    def backward(y: Tensor) -> tuple[Tensor, tuple[Tensor, ...]]:
        return y.detach(), torch.autograd.grad(y, (x, weight, bias), upstream)

    def work(convolve: Convolution) -> Differentiated[Tensor]:
        return Differentiated(partial(forward, convolve), backward)

    def objections() -> list[str]:
        y, gradients = backward(forward(winograd_convolution))
        exact = [t.detach().double().requires_grad_() for t in (x, weight, bias)]
        truth = plain(exact[0], MAPS, exact[1], exact[2])
        true_gradients = torch.autograd.grad(truth, exact, upstream.double())
        found = differ("output", y, truth.detach(), ERROR[dtype])
        for name, mine, true in zip(
            ("x", "weight", "bias"), gradients, true_gradients, strict=True
        ):
            found += differ(f"gradient of {name}", mine, true, ERROR[dtype])
        return found

    # Forward: x, weight, bias → y. Backward: upstream, x, weight → three gradients.
    given, made = bytes_of(x, weight, bias), bytes_of(upstream)
    passes = {"forward": given + made, "backward": made + bytes_of(x, weight) + given}
    return Case(
        shape=shape,
        kernel=work(winograd_convolution),
        baselines={"eager": work(plain), "compile": work(compiled(plain))},
        moved_bytes=sum(passes.values()),
        passes={"forward": passes["forward"], "backward": passes["backward"]},
        largest_bytes=max(bytes_of(weight), made),
        objections=objections,
    )


OPERATOR = Operator(OP.dtypes, SHAPES, case)
