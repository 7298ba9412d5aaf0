"""1x1 convolutions as matrix products: `matmul` of the knob `pointwise`.

Channels-last, a 1x1 convolution is one product of [B * H * W, in] by [in, out], and so are its
gradients. oneDNN's convolutions of such shapes reorder the weights in every step, and are far from
the machine's peak for small maps; its matrix products are not.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor, nn
from torch.autograd.function import once_differentiable

from models.retinanet.frozen_norm import FoldedConv2d, ScaledWeight


class PointwiseConv2d(ScaledWeight):
    """A 1x1 convolution, or one with a frozen norm folded in, as matrix products.

    Its parameters are the convolution's own, by their names. It computes in the dtype of autocast,
    if that is on, and gives channels-last.

    Args:
        conv: the convolution that it replaces; 1x1, without groups or padding.
    """

    def __init__(self, conv: nn.Conv2d | FoldedConv2d) -> None:
        super().__init__()
        self.stride = conv.stride[0]
        self.weight = conv.weight
        self.rounds_weights = isinstance(conv, nn.Conv2d)
        """See models.master_weights: a folded norm scales them before."""
        self.scale: Tensor | None
        self.bias: Tensor | None
        if isinstance(conv, FoldedConv2d):
            self.register_buffer("scale", conv.scale.flatten(1))
            self.register_buffer("bias", conv.shift)
        else:
            self.register_buffer("scale", None)
            self.bias = conv.bias

    def forward(self, x: Tensor) -> Tensor:
        """Map x [B, in, H, W] to [B, out, H / stride, W / stride]."""
        dtype = torch.get_autocast_dtype("cpu") if torch.is_autocast_enabled("cpu") else x.dtype
        kept = self.scaled
        weight, scale = (self.weight, self.scale) if kept is None else (kept, None)
        y: Tensor = _Pointwise.apply(x.to(dtype), weight, scale, self.bias, self.stride)  # type: ignore[no-untyped-call]
        return y


class _Pointwise(torch.autograd.Function):
    """Writes into tensors that it lays out itself, since autograd of views and slices would copy.

    In torch 2.8 that includes slices that select everything.
    """

    @staticmethod
    def forward(
        ctx: Any,  # noqa: ANN401 - torch's own
        x: Tensor,
        weight: Tensor,
        scale: Tensor | None,
        bias: Tensor | None,
        stride: int,
    ) -> Tensor:
        ctx.stride, ctx.shape = stride, x.shape
        x = _every(x, stride).contiguous(memory_format=torch.channels_last)
        kernel = _scaled(weight.flatten(1), scale, x.dtype)
        y = _empty((len(x), len(kernel), *x.shape[2:]), x)
        if bias is None:
            torch.mm(_rows(x), kernel.t(), out=_rows(y))
        else:
            torch.addmm(bias.to(x.dtype), _rows(x), kernel.t(), out=_rows(y))
        ctx.save_for_backward(x, kernel, scale)
        ctx.weight = weight.shape, weight.dtype
        return y

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: Tensor) -> Any:  # noqa: ANN401 - torch's own
        x, kernel, scale = ctx.saved_tensors
        of_x = of_weight = of_bias = None
        rows = _rows(gradient.contiguous(memory_format=torch.channels_last))
        if ctx.needs_input_grad[0]:
            of_x = _empty(x.shape, x)
            torch.mm(rows, kernel, out=_rows(of_x))
            of_x = _spread(of_x, ctx.shape, ctx.stride)
        shape, dtype = ctx.weight
        if ctx.needs_input_grad[1]:
            of_weight = _scaled(rows.t() @ _rows(x), scale, dtype).view(shape)
        if ctx.needs_input_grad[3]:
            of_bias = rows.sum(0).to(dtype)
        return of_x, of_weight, None, of_bias, None


def use_matmul(model: nn.Module) -> int:
    """Replace every 1x1 convolution of a model by matrix products; return their number."""
    found = [(name, m) for name, m in model.named_modules() if _is_pointwise(m)]
    for name, module in found:
        model.set_submodule(name, PointwiseConv2d(module))
    return len(found)


def _is_pointwise(module: nn.Module) -> bool:
    if not isinstance(module, nn.Conv2d | FoldedConv2d):
        return False
    plain = module.groups == 1 and module.padding in ((0, 0), 0)
    return plain and tuple(module.weight.shape[2:]) == (1, 1)


def _scaled(weight: Tensor, scale: Tensor | None, dtype: torch.dtype) -> Tensor:
    """Return weight [out, in] times scale [out, 1] in a dtype, in one pass."""
    if scale is None:
        return weight.to(dtype)
    result = torch.empty(weight.shape, dtype=dtype, device=weight.device)
    return torch.mul(weight, scale, out=result)


def _empty(shape: Sequence[int], like: Tensor) -> Tensor:
    """Return a channels-last tensor [B, C, H, W] with another's dtype and device."""
    layout = torch.channels_last
    return torch.empty(tuple(shape), dtype=like.dtype, device=like.device, memory_format=layout)


def _every(x: Tensor, stride: int) -> Tensor:
    """Return every `stride`-th row and column of x [B, C, H, W]; x itself if that is all of it."""
    return x if stride == 1 else x[:, :, ::stride, ::stride]


def _spread(x: Tensor, shape: Sequence[int], stride: int) -> Tensor:
    """Return zeros [B, C, H, W] with x [B, C, h, w] in every `stride`-th row and column."""
    if stride == 1:
        return x
    zeros = _empty(shape, x).zero_()
    _every(zeros, stride).copy_(x)
    return zeros


def _rows(x: Tensor) -> Tensor:
    """Return the view [B * H * W, C] of a channels-last tensor [B, C, H, W]."""
    return x.permute(0, 2, 3, 1).flatten(0, 2)
