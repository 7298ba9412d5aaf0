"""RetinaNet's heads over rows of all pyramid levels, for any form of their 3x3 convolutions.

All levels pass through both heads as rows [B, cells, channels], one level after another. Nothing is
packed, masked or reordered in between, and the last convolution's rows are the logits of the
anchors in their order.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch
from torch import Tensor, nn

from models.retinanet.head import BothHeads, HeadOutputs

Sizes = Sequence[tuple[int, int]]
"""Rows and columns of each map."""


class RowConv2d(nn.Module):
    """A 3x3 convolution with padding 1 over the cells of several maps.

    Its parameters are the convolution's own, by their names. Subclasses compute it.

    Args:
        conv: the convolution that it replaces.
    """

    def __init__(self, conv: nn.Conv2d) -> None:
        super().__init__()
        self.weight = conv.weight
        self.bias = conv.bias

    def forward(self, x: Tensor, sizes: Sizes, relu: bool = False) -> Tensor:
        """Map x [B, cells, in] to [B, cells, out], with a ReLU if told."""
        raise NotImplementedError


class RowsHead(BothHeads):
    """Both heads of RetinaNet over rows; shares the parameters of the plain head.

    It computes in the dtype of autocast, if that is on.

    Args:
        head: the head whose convolutions it takes over.
        form: makes of a convolution the one that replaces it.
    """

    def __init__(self, head: BothHeads, form: Callable[[nn.Conv2d], RowConv2d]) -> None:
        super().__init__(head.classification_head, head.regression_head)
        convolutions = [(n, m) for n, m in self.named_modules() if isinstance(m, nn.Conv2d)]
        for name, conv in convolutions:
            self.set_submodule(name, form(conv))

    def forward(self, levels: Sequence[Tensor]) -> HeadOutputs:
        """Return what the plain head returns for levels [B, channels, H_l, W_l]."""
        rows = torch.cat([level.permute(0, 2, 3, 1).flatten(1, 2) for level in levels], dim=1)
        if torch.is_autocast_enabled("cpu"):
            rows = rows.to(torch.get_autocast_dtype("cpu"))
        sizes = [(level.shape[2], level.shape[3]) for level in levels]
        classes, boxes = self.classification_head, self.regression_head
        return HeadOutputs(
            _run(classes.conv, classes.cls_logits, rows, sizes, classes.num_classes),
            _run(boxes.conv, boxes.bbox_reg, rows, sizes, 4),
        )


def _run(tower: nn.Sequential, last: nn.Module, rows: Tensor, sizes: Sizes, values: int) -> Tensor:
    """Return [B, A, values] of one head."""
    for block in tower:
        rows = block.get_submodule("0")(rows, sizes, relu=True)
    outputs: Tensor = last(rows, sizes)
    return outputs.view(len(rows), -1, values)
