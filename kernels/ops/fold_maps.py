"""The gradient of 3x3 neighbourhoods: torch's operator is in kernels/ops/unfold_maps.py."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

import kernels.ops.unfold_maps  # noqa: F401 - registers benchfarm::fold_maps
from kernels.common.maps import TAPS, check_maps
from kernels.op import Op, register, serves
from kernels.reference import unfold as reference


def fold_maps(neighbours: Tensor, sizes: Sequence[tuple[int, int]]) -> Tensor:
    """Return [B, cells, C], the gradient of x where that of `unfold_maps` is [B, cells, 9, C].

    Sums are fp32, rounded once.

    Raises:
        ValueError: neighbours has another number of dimensions or cells, or a map has a negative
            side.
    """
    check_maps("neighbours", neighbours, sizes, TAPS)
    if not serves(neighbours):
        return reference.fold_maps(neighbours, sizes)
    result: Tensor = torch.ops.benchfarm.fold_maps(neighbours, [n for size in sizes for n in size])
    return result


OP = register(Op(dtypes=("fp32", "bf16"), reference=reference.fold_maps))
