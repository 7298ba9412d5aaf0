"""Checks shared by operators on boxes [N, 4]."""

from __future__ import annotations

import torch
from torch import Tensor

from kernels.op import serves


def check_boxes(*boxes: Tensor) -> None:
    """Raise ValueError unless all are [N, 4]."""
    for some in boxes:
        if some.dim() != 2 or some.shape[1] != 4:
            raise ValueError(f"boxes {list(some.shape)}: expected [N, 4]")


def check_one_each(boxes: Tensor, **numbers: Tensor) -> None:
    """Raise ValueError unless there is a number for each box."""
    for name, some in numbers.items():
        if some.shape != boxes.shape[:1]:
            raise ValueError(
                f"boxes {list(boxes.shape)}, {name} {list(some.shape)}: expected [N, 4] and [N]"
            )


def serves_boxes(*tensors: Tensor) -> bool:
    """Return whether the compiled library supports these tensors: fp32 on a CPU."""
    return all(t.dtype == torch.float32 for t in tensors) and serves(*tensors)
