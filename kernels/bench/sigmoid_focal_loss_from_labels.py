"""The focal loss of class ids; the reference builds target and mask."""

from __future__ import annotations

from functools import partial

import torch
from torch import Tensor

from kernels.bench.case import Case, Operator
from kernels.bench.losses import BACKGROUND, IGNORED, SHAPE, loss_case
from kernels.ops.sigmoid_focal_loss_from_labels import OP, sigmoid_focal_loss_from_labels
from kernels.reference import focal_loss as reference


def case(dtype: str, shape: str) -> Case:
    """Return the case of sigmoid_focal_loss_from_labels: sum of the losses."""
    mine = partial(sigmoid_focal_loss_from_labels, ignore_index=IGNORED, background=BACKGROUND)
    return loss_case(dtype, lambda labels, _: labels, mine, _plain, _rewritten)


def _plain(logits: Tensor, labels: Tensor) -> Tensor:
    """Compute target, mask and loss as training code does; fp32 sum."""
    counted = labels != IGNORED
    targets = torch.zeros_like(logits)
    foreground = (labels >= 0).nonzero()[:, 0]
    targets[foreground, labels[foreground]] = 1
    loss = reference.sigmoid_focal_loss(logits[counted], targets[counted])
    return loss.sum(dtype=torch.float32)


def _rewritten(logits: Tensor, labels: Tensor) -> Tensor:
    """Compute the same with shapes independent of the data, which compile to a few loops."""
    classes = torch.arange(logits.shape[1], device=logits.device)
    targets = (labels[:, None] == classes).to(logits.dtype)
    loss = reference.sigmoid_focal_loss(logits, targets)
    return torch.where(labels[:, None] == IGNORED, 0.0, loss.float()).sum()


OPERATOR = Operator(OP.dtypes, (SHAPE,), case)
