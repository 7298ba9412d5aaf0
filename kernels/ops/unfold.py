"""What a 3x3 convolution by matrix products takes beside them: neighbourhoods, transposition."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from kernels.ops.registry import call, define, differentiate, serves
from kernels.reference.unfold import unfold_maps as reference

TAPS = 9


def unfold_maps(x: Tensor, sizes: Sequence[tuple[int, int]]) -> Tensor:
    """Return [B, cells, 9, C]: each cell's neighbours, row by row; 0 where its map has none.

    So a 3x3 convolution with padding 1 over all maps is one product of [B * cells, 9 * C] by
    [9 * C, out]. fp32 and bf16 on a CPU run compiled, any other dtype in plain torch.

    Args:
        x: [B, cells, C]; cells run through one map after the other, each row by row.
        sizes: rows and columns of each map.

    Raises:
        ValueError: x has another number of dimensions or cells.
    """
    cells = sum(rows * columns for rows, columns in sizes)
    if x.dim() != 3 or x.shape[1] != cells or any(n < 0 for size in sizes for n in size):
        raise ValueError(
            f"x {list(x.shape)}, maps of {list(sizes)}: expected [B, {cells}, C], {cells} cells"
        )
    if not serves(x):
        return reference(x, sizes)
    unfolded: Tensor = torch.ops.benchfarm.unfold_maps(x, [n for size in sizes for n in size])
    return unfolded


def fold_maps(neighbours: Tensor, sizes: Sequence[tuple[int, int]]) -> Tensor:
    """Return [B, cells, C], the gradient of x where that of `unfold_maps` is [B, cells, 9, C].

    Sums are fp32, rounded once.

    Raises:
        ValueError: neighbours has another number of dimensions or cells.
    """
    cells = sum(rows * columns for rows, columns in sizes)
    if neighbours.dim() != 4 or neighbours.shape[1:3] != (cells, TAPS):
        raise ValueError(f"neighbours {list(neighbours.shape)}: expected [B, {cells}, {TAPS}, C]")
    if not serves(neighbours):
        x = neighbours.new_zeros((*neighbours.shape[:2], neighbours.shape[3]), requires_grad=True)
        with torch.enable_grad():
            (folded,) = torch.autograd.grad(reference(x, sizes), x, neighbours)
        return folded
    result: Tensor = torch.ops.benchfarm.fold_maps(neighbours, [n for size in sizes for n in size])
    return result


def transposed(x: Tensor) -> Tensor:
    """Return x [M, N] as a contiguous [N, M], like `x.t().contiguous()`."""
    if x.dim() != 2 or not serves(x):
        return x.t().contiguous()
    result: Tensor = torch.ops.benchfarm.transposed(x)
    return result


def _unfold(x: Tensor, sizes: list[int]) -> Tensor:
    neighbours = _fake_unfold(x, sizes)
    _call_on_maps("unfold", x.contiguous(), sizes, neighbours, x.shape[2])
    return neighbours


def _fold(neighbours: Tensor, sizes: list[int]) -> Tensor:
    x = _fake_fold(neighbours, sizes)
    _call_on_maps("fold", neighbours.contiguous(), sizes, x, neighbours.shape[3])
    return x


def _call_on_maps(name: str, given: Tensor, sizes: list[int], made: Tensor, channels: int) -> None:
    of_maps = torch.tensor(sizes, dtype=torch.int64)
    call(name, given.dtype, given, of_maps, len(sizes) // 2, len(given), channels, made)


def _fake_unfold(x: Tensor, sizes: list[int]) -> Tensor:
    return x.new_empty((*x.shape[:2], TAPS, x.shape[2]))


def _fake_fold(neighbours: Tensor, sizes: list[int]) -> Tensor:
    return neighbours.new_empty((*neighbours.shape[:2], neighbours.shape[3]))


def _transpose(x: Tensor) -> Tensor:
    y = _fake_transposed(x)
    call("transpose", x.dtype, x.contiguous(), *x.shape, y)
    return y


def _fake_transposed(x: Tensor) -> Tensor:
    return x.new_empty(x.shape[::-1])


def _keep_sizes(ctx: Any, inputs: tuple[Any, ...], output: Tensor) -> None:  # noqa: ANN401
    _, ctx.sizes = inputs


define("unfold_maps(Tensor x, int[] sizes) -> Tensor", _unfold, _fake_unfold)
define("fold_maps(Tensor neighbours, int[] sizes) -> Tensor", _fold, _fake_fold)
define("transposed(Tensor x) -> Tensor", _transpose, _fake_transposed)
differentiate(
    "unfold_maps",
    lambda ctx, grad: (torch.ops.benchfarm.fold_maps(grad, ctx.sizes), None),
    _keep_sizes,
)
differentiate(
    "fold_maps",
    lambda ctx, grad: (torch.ops.benchfarm.unfold_maps(grad, ctx.sizes), None),
    _keep_sizes,
)
differentiate("transposed", lambda _, grad: torch.ops.benchfarm.transposed(grad))
