"""RetinaNet's two heads, shared by all pyramid levels (Lin et al. 2017, section 4)."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

import torch
from torch import Tensor, nn

PRIOR_PROBABILITY = 0.01
"""Initial probability of every class for every anchor."""

_TOWER_DEPTH = 4


class HeadOutputs(NamedTuple):
    """The heads' outputs for all anchors, in the order of `anchors.anchors_by_level`."""

    cls_logits: Tensor
    """[B, A, classes]."""

    bbox_regression: Tensor
    """[B, A, 4], encoded as in `box_coder`."""


class ClassificationHead(nn.Module):
    """Class logits of every anchor."""

    def __init__(self, channels: int, anchors_per_cell: int, num_classes: int) -> None:
        super().__init__()
        self.num_classes = num_classes
        self.conv = _tower(channels)
        self.cls_logits = _conv3x3(channels, anchors_per_cell * num_classes)
        bias = -math.log((1 - PRIOR_PROBABILITY) / PRIOR_PROBABILITY)
        nn.init.constant_(self.cls_logits.get_parameter("bias"), bias)

    def forward(self, levels: Sequence[Tensor]) -> Tensor:
        """Return [B, A, classes] for levels [B, channels, H_l, W_l]."""
        return _by_anchor([self.cls_logits(self.conv(x)) for x in levels], self.num_classes)


class RegressionHead(nn.Module):
    """Box regression of every anchor."""

    def __init__(self, channels: int, anchors_per_cell: int) -> None:
        super().__init__()
        self.conv = _tower(channels)
        self.bbox_reg = _conv3x3(channels, anchors_per_cell * 4)

    def forward(self, levels: Sequence[Tensor]) -> Tensor:
        """Return [B, A, 4] for levels [B, channels, H_l, W_l]."""
        return _by_anchor([self.bbox_reg(self.conv(x)) for x in levels], 4)


class BothHeads(nn.Module):
    """Both heads; subclasses define how the levels pass through them."""

    def __init__(self, classification: ClassificationHead, regression: RegressionHead) -> None:
        super().__init__()
        self.classification_head = classification
        self.regression_head = regression


class RetinaNetHead(BothHeads):
    """Both heads, level by level."""

    def __init__(self, channels: int, anchors_per_cell: int, num_classes: int) -> None:
        super().__init__(
            ClassificationHead(channels, anchors_per_cell, num_classes),
            RegressionHead(channels, anchors_per_cell),
        )

    def forward(self, levels: Sequence[Tensor]) -> HeadOutputs:
        """Return the outputs of both heads for levels [B, channels, H_l, W_l]."""
        return HeadOutputs(self.classification_head(levels), self.regression_head(levels))


def _conv3x3(in_channels: int, out_channels: int) -> nn.Conv2d:
    conv = nn.Conv2d(in_channels, out_channels, 3, padding=1)
    nn.init.normal_(conv.weight, std=0.01)
    nn.init.zeros_(conv.get_parameter("bias"))
    return conv


def _tower(channels: int) -> nn.Sequential:
    return nn.Sequential(
        *(
            nn.Sequential(_conv3x3(channels, channels), nn.ReLU(inplace=True))
            for _ in range(_TOWER_DEPTH)
        )
    )


def _by_anchor(maps: Sequence[Tensor], values: int) -> Tensor:
    """Reshape maps [B, anchors_per_cell * values, H_l, W_l] to one [B, A, values]."""
    rows = [m.permute(0, 2, 3, 1).reshape(m.shape[0], -1, values) for m in maps]
    return torch.cat(rows, dim=1)
