"""The 3x3 neighbourhoods for a convolution by matrix products."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from kernels.common.maps import TAPS, call_on_maps, check_maps
from kernels.op import Op, TorchOp, register, serves
from kernels.reference import unfold as reference


def unfold_maps(x: Tensor, sizes: Sequence[tuple[int, int]]) -> Tensor:
    """Return [B, cells, 9, C]: each cell's neighbours, row by row; 0 where its map has none.

    So a 3x3 convolution with padding 1 over all maps is one product of [B * cells, 9 * C] by
    [9 * C, out]. fp32 and bf16 on a CPU run compiled, any other dtype in plain torch.

    Args:
        x: [B, cells, C]; cells run through one map after the other, each row by row.
        sizes: rows and columns of each map.

    Raises:
        ValueError: x has another number of dimensions or cells, or a map has a negative side.
    """
    check_maps("x", x, sizes)
    if not serves(x):
        return reference.unfold_maps(x, sizes)
    unfolded: Tensor = torch.ops.benchfarm.unfold_maps(x, [n for size in sizes for n in size])
    return unfolded


def _unfold(x: Tensor, sizes: list[int]) -> Tensor:
    neighbours = _fake_unfold(x, sizes)
    call_on_maps("unfold_maps", x.contiguous(), sizes, neighbours, x.shape[2])
    return neighbours


def _fake_unfold(x: Tensor, sizes: list[int]) -> Tensor:
    return x.new_empty((*x.shape[:2], TAPS, x.shape[2]))


def _save(ctx: Any, inputs: tuple[Any, ...], output: Tensor) -> None:  # noqa: ANN401 - torch's
    _, ctx.sizes = inputs


def _differentiate_unfold(ctx: Any, grad: Tensor) -> tuple[Tensor, None]:  # noqa: ANN401
    return torch.ops.benchfarm.fold_maps(grad, ctx.sizes), None


def _fold(neighbours: Tensor, sizes: list[int]) -> Tensor:
    x = _fake_fold(neighbours, sizes)
    call_on_maps("fold_maps", neighbours.contiguous(), sizes, x, neighbours.shape[3])
    return x


def _fake_fold(neighbours: Tensor, sizes: list[int]) -> Tensor:
    return neighbours.new_empty((*neighbours.shape[:2], neighbours.shape[3]))


def _differentiate_fold(ctx: Any, grad: Tensor) -> tuple[Tensor, None]:  # noqa: ANN401
    return torch.ops.benchfarm.unfold_maps(grad, ctx.sizes), None


OP = register(
    Op(
        dtypes=("fp32", "bf16"),
        reference=reference.unfold_maps,
        torch_ops=(
            TorchOp(
                "unfold_maps(Tensor x, int[] sizes) -> Tensor",
                _unfold,
                _fake_unfold,
                _differentiate_unfold,
                _save,
            ),
            TorchOp(
                "fold_maps(Tensor neighbours, int[] sizes) -> Tensor",
                _fold,
                _fake_fold,
                _differentiate_fold,
                _save,
            ),
        ),
    )
)
