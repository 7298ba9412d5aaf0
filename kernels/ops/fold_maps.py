"""The gradient of 3x3 neighbourhoods: torch's operator is in kernels/ops/unfold_maps.py."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

import kernels.ops.unfold_maps  # noqa: F401 - registers benchfarm::fold_maps
from kernels.common.maps import TAPS
from kernels.op import Op, register, serves
from kernels.reference import unfold as reference


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
        return reference.fold_maps(neighbours, sizes)
    result: Tensor = torch.ops.benchfarm.fold_maps(neighbours, [n for size in sizes for n in size])
    return result


OP = register(Op(dtypes=("fp32", "bf16"), reference=reference.fold_maps))
