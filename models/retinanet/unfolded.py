"""The heads' 3x3 convolutions as matrix products: `matmul` of the knob `head_convolutions`.

A convolution is one product of all cells' neighbourhoods [B * cells, 9 * in] with the weights [9 *
in, out], and so are its gradients.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from models.retinanet.rows import RowConv2d, Sizes


class UnfoldedConv2d(RowConv2d):
    """A 3x3 convolution by matrix products."""

    rounds_weights = True
    """See models.master_weights."""

    def forward(self, x: Tensor, sizes: Sizes, relu: bool = False) -> Tensor:
        """Map x [B, cells, in] to [B, cells, out], with a ReLU if told."""
        y: Tensor = _Unfolded.apply(x, self.weight, self.bias, sizes, relu)  # type: ignore[no-untyped-call]
        return y


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
    @once_differentiable
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
        turned = transpose(grad_output)
        if ctx.needs_input_grad[1]:
            neighbours = unfold_maps(x, ctx.sizes).view(-1, kernel.shape[1])
            of_weight = (turned @ neighbours).to(ctx.dtype)
            of_weight = of_weight.view(len(kernel), 3, 3, -1).permute(0, 3, 1, 2)
        if ctx.needs_input_grad[2]:
            of_bias = turned.sum(1).to(ctx.dtype)  # torch sums rows faster than columns
        return of_x, of_weight, of_bias, None, None
