"""The focal loss of one-hot targets, 1 % of the rows foreground."""

from __future__ import annotations

from functools import partial

import torch
from torch import Tensor

from kernels.bench.case import Case, Operator
from kernels.bench.losses import CLASSES, SHAPE, loss_case
from kernels.ops.sigmoid_focal_loss import OP, sigmoid_focal_loss
from kernels.reference import focal_loss as reference


def case(dtype: str, shape: str) -> Case:
    """Return the case of sigmoid_focal_loss: sum of the losses."""
    mine = partial(sigmoid_focal_loss, reduction="sum")
    return loss_case(dtype, _one_hot, mine, _plain)


def _plain(logits: Tensor, targets: Tensor) -> Tensor:
    return reference.sigmoid_focal_loss(logits, targets, reduction="sum")


def _one_hot(labels: Tensor, dtype: torch.dtype) -> Tensor:
    return (labels[:, None] == torch.arange(CLASSES)).to(dtype)


OPERATOR = Operator(OP.dtypes, (SHAPE,), case)
