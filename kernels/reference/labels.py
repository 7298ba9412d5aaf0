"""Checks of class ids."""

from __future__ import annotations

import torch
from torch import Tensor

INTEGERS = (torch.int64, torch.int32, torch.int16, torch.int8, torch.uint8)


def check_integers(labels: Tensor) -> None:
    """Raise ValueError unless labels are integers: 0.7 would silently become class 0."""
    if labels.dtype not in INTEGERS:
        raise ValueError(f"labels of {labels.dtype}: expected integers")
