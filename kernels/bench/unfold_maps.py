"""Neighbourhoods in RetinaNet's heads, at 256 px, batch 2."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial

import torch
from torch import Tensor

from kernels.bench.case import Case, Differentiated, Operator, bytes_of, compiled, differ
from kernels.bench.inputs import CELLS, CHANNELS, FOLD_ERROR, IMAGES, MAPS, some_numbers
from kernels.common.maps import TAPS
from kernels.ops.unfold_maps import OP, unfold_maps
from kernels.reference.unfold import unfold_maps as plain

Unfold = Callable[[Tensor, Sequence[tuple[int, int]]], object]


def case(dtype: str, shape: str) -> Case:
    """Return the case of unfold_maps, forward and backward."""
    x = some_numbers(dtype, IMAGES, CELLS, CHANNELS)
    upstream = some_numbers(dtype, IMAGES, CELLS, TAPS, CHANNELS)

    def forward(unfold: Unfold, x: Tensor) -> tuple[Tensor, Tensor]:
        given = x.detach().requires_grad_()
        y = unfold(given, MAPS)
        if not isinstance(y, Tensor):
            raise TypeError(f"neighbours are a tensor, not {type(y).__name__}")
        return given, y

    def backward(upstream: Tensor, made: tuple[Tensor, Tensor]) -> tuple[Tensor, Tensor]:
        given, y = made
        (grad,) = torch.autograd.grad(y, given, upstream)
        return y.detach(), grad

    def work(unfold: Unfold) -> Differentiated[tuple[Tensor, Tensor]]:
        return Differentiated(partial(forward, unfold, x), partial(backward, upstream))

    def objections() -> list[str]:
        neighbours, grad = backward(upstream, forward(unfold_maps, x))
        exact, exact_grad = backward(upstream.double(), forward(plain, x.double()))
        return differ("neighbours", neighbours, exact, 0) + differ(
            "gradient", grad, exact_grad, FOLD_ERROR[dtype]
        )

    return Case(
        shape=shape,
        kernel=work(unfold_maps),
        baselines={"eager": work(plain), "compile": work(compiled(plain))},
        # Forward: x → its neighbours. Backward: their gradient → x's gradient.
        moved_bytes=2 * bytes_of(x, upstream),
        passes={"forward": bytes_of(x, upstream), "backward": bytes_of(x, upstream)},
        largest_bytes=bytes_of(upstream),
        objections=objections,
    )


OPERATOR = Operator(OP.dtypes, (f"{IMAGES}x{CELLS}x{CHANNELS}",), case)
