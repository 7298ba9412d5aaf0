"""The heads' 3x3 convolutions as matrix products: `matmul` of the knob `head_convolutions`.

All pyramid levels pass through both heads as rows [B, cells, channels], one level after another. A
convolution is one product of all cells' neighbourhoods [B * cells, 9 * in] with the weights [9 *
in, out], and so are its gradients. Nothing is packed, masked or reordered in between, and the last
product's rows are the logits of the anchors in their order.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor, nn

from models.retinanet.head import BothHeads, HeadOutputs

Sizes = Sequence[tuple[int, int]]


class UnfoldedConv2d(nn.Module):
    """A 3x3 convolution with padding 1 over the cells of several maps, by matrix products.

    Its parameters are the convolution's own, by their names.

    Args:
        conv: the convolution that it replaces.
    """

    def __init__(self, conv: nn.Conv2d) -> None:
        super().__init__()
        self.weight = conv.weight
        self.bias = conv.bias

    def forward(self, x: Tensor, sizes: Sizes, relu: bool = False) -> Tensor:
        """Map x [B, cells, in] to [B, cells, out]; `sizes` has rows and columns of each map."""
        y: Tensor = _Unfolded.apply(x, self.weight, self.bias, sizes, relu)  # type: ignore[no-untyped-call]
        return y


class UnfoldedHead(BothHeads):
    """Both heads of RetinaNet over rows; shares the parameters of the plain head.

    It computes in the dtype of autocast, if that is on.

    Args:
        head: the head whose convolutions it takes over.
    """

    def __init__(self, head: BothHeads) -> None:
        super().__init__(head.classification_head, head.regression_head)
        convolutions = [(n, m) for n, m in self.named_modules() if isinstance(m, nn.Conv2d)]
        for name, conv in convolutions:
            self.set_submodule(name, UnfoldedConv2d(conv))

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


class _Unfolded(torch.autograd.Function):
    """Stores x and recomputes its neighbourhoods for the backward pass, since they are nine times
    larger."""

    @staticmethod
    def forward(
        ctx: Any,  # noqa: ANN401 - torch's own
        x: Tensor,
        weight: Tensor,
        bias: Tensor,
        sizes: Sizes,
        relu: bool,
    ) -> Tensor:
        from kernels.ops.unfold_maps import unfold_maps

        kernel = weight.permute(0, 2, 3, 1).flatten(1).to(x.dtype)
        y = torch.addmm(
            bias.to(x.dtype), unfold_maps(x, sizes).view(-1, kernel.shape[1]), kernel.t()
        )
        if relu:
            y.relu_()
        ctx.save_for_backward(x, kernel, y if relu else None)
        ctx.sizes, ctx.dtype = sizes, weight.dtype
        return y.view(*x.shape[:2], -1)

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> Any:  # noqa: ANN401 - torch's own
        from kernels.ops.fold_maps import fold_maps
        from kernels.ops.transpose import transpose
        from kernels.ops.unfold_maps import unfold_maps

        x, kernel, y = ctx.saved_tensors
        grad_output = gradient.reshape(-1, len(kernel))
        if y is not None:
            grad_output = torch.ops.aten.threshold_backward(grad_output, y, 0)
        of_x = of_weight = of_bias = None
        if ctx.needs_input_grad[0]:
            of_x = fold_maps((grad_output @ kernel).view(*x.shape[:2], 9, -1), ctx.sizes)
        if ctx.needs_input_grad[1]:
            neighbours = unfold_maps(x, ctx.sizes).view(-1, kernel.shape[1])
            of_weight = (transpose(grad_output) @ neighbours).to(ctx.dtype)
            of_weight = of_weight.view(len(kernel), 3, 3, -1).permute(0, 3, 1, 2)
        if ctx.needs_input_grad[2]:
            of_bias = grad_output.sum(0).to(ctx.dtype)
        return of_x, of_weight, of_bias, None, None
