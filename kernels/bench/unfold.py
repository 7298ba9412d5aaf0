"""What goes with matrix products in RetinaNet's heads, at 256 px, batch 2."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial

import torch
from torch import Tensor

from kernels.bench.cases import DTYPES, Case, bytes_of, compiled, differ
from kernels.ops import unfold as ops
from kernels.reference.unfold import unfold_maps as plain

IMAGES, CHANNELS, OUT = 2, 256, 9 * 264
MAPS = [(32, 32), (16, 16), (8, 8), (4, 4), (2, 2)]
CELLS = sum(rows * columns for rows, columns in MAPS)
UNFOLDED = (f"{IMAGES}x{CELLS}x{CHANNELS}",)
TURNED = (f"{IMAGES * CELLS}x{OUT}",)

ERROR = {"fp32": 1e-6, "bf16": 2.0**-8}
"""A sum of nine in fp32, rounded to the dtype, relative to the largest value."""

Unfold = Callable[[Tensor, Sequence[tuple[int, int]]], object]


def unfolding(dtype: str, shape: str) -> Case:
    """Return the case of unfold_maps, forward and backward."""
    x, upstream = _some(dtype, IMAGES, CELLS, CHANNELS), _some(dtype, IMAGES, CELLS, 9, CHANNELS)

    def step(unfold: Unfold, x: Tensor, upstream: Tensor) -> tuple[Tensor, Tensor]:
        given = x.detach().requires_grad_()
        y = unfold(given, MAPS)
        if not isinstance(y, Tensor):
            raise TypeError(f"neighbours are a tensor, not {type(y).__name__}")
        (slopes,) = torch.autograd.grad(y, given, upstream)
        return y.detach(), slopes

    def objections() -> list[str]:
        neighbours, slopes = step(ops.unfold_maps, x, upstream)
        exact, slopes_of_exact = step(plain, x.double(), upstream.double())
        return differ("neighbours", neighbours, exact, 0) + differ(
            "gradient", slopes, slopes_of_exact, ERROR[dtype]
        )

    return Case(
        shape=shape,
        kernel=partial(step, ops.unfold_maps, x, upstream),
        baselines={
            "eager": partial(step, plain, x, upstream),
            "compile": partial(step, compiled(plain), x, upstream),
        },
        # Forward: x → its neighbours. Backward: theirs → x's gradient.
        moved_bytes=2 * bytes_of(x, upstream),
        largest_bytes=bytes_of(upstream),
        objections=objections,
    )


def transposition(dtype: str, shape: str) -> Case:
    """Return the case of transposed, which moves elements and changes none."""
    x = _some(dtype, IMAGES * CELLS, OUT)
    return Case(
        shape=shape,
        kernel=partial(ops.transposed, x),
        baselines={"eager": lambda: x.t().contiguous()},
        moved_bytes=2 * bytes_of(x),
        largest_bytes=bytes_of(x),
        objections=lambda: differ("transpose", ops.transposed(x), x.t(), 0),
    )


def _some(dtype: str, *shape: int) -> Tensor:
    generator = torch.Generator().manual_seed(len(shape))
    return torch.randn(shape, generator=generator).to(DTYPES[dtype])
