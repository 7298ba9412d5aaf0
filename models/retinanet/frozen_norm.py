"""Batch norms that don't learn, in the forms of the knob `frozen_bn`.

The plain form is torchvision's, and that of state dicts. The others are transforms of a model with
its weights loaded; their outputs and gradients equal the plain ones except for rounding, because a
frozen norm is a constant factor and offset of each channel.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Self

import torch
from torch import Tensor, nn
from torch.nn import functional

ScaleShift = Callable[[Tensor, Tensor, Tensor], Tensor]
"""x [B, C, H, W], scale [C], shift [C] → x * scale + shift in the dtype of x, as one operator."""


class FrozenBatchNorm2d(nn.Module):
    """Batch norm with fixed statistics and affine terms: y = x * scale + shift, all buffers.

    eps is 1e-5, the default of torchvision and of the MLPerf reference for this backbone (their 0.0
    is for COCO weights older than that default). Scale and shift are computed in fp32 and cast to
    the dtype of x: under autocast an fp32 factor would promote every bf16 activation.
    """

    def __init__(self, channels: int, eps: float = 1e-5) -> None:
        super().__init__()
        self.eps = eps
        self.weight: Tensor
        self.bias: Tensor
        self.running_mean: Tensor
        self.running_var: Tensor
        self.register_buffer("weight", torch.ones(channels))
        self.register_buffer("bias", torch.zeros(channels))
        self.register_buffer("running_mean", torch.zeros(channels))
        self.register_buffer("running_var", torch.ones(channels))

    def scale_and_shift(self) -> tuple[Tensor, Tensor]:
        """Return the factor [C] and the offset [C] of each channel, fp32."""
        scale = self.weight * (self.running_var + self.eps).rsqrt()
        return scale, self.bias - self.running_mean * scale

    def forward(self, x: Tensor) -> Tensor:
        """Normalise x [B, C, H, W]; keeps its dtype."""
        scale, shift = self.scale_and_shift()
        return x * scale.to(x.dtype)[:, None, None] + shift.to(x.dtype)[:, None, None]


class OneOpNorm(nn.Module):
    """A frozen norm as one operator, with scale and shift computed once.

    Args:
        norm: the plain form, which it replaces.
        operator: computes x * scale + shift.
    """

    def __init__(self, norm: FrozenBatchNorm2d, operator: ScaleShift) -> None:
        super().__init__()
        self.operator = operator
        self.scale: Tensor
        self.shift: Tensor
        scale, shift = norm.scale_and_shift()
        self.register_buffer("scale", scale)
        self.register_buffer("shift", shift)

    def forward(self, x: Tensor) -> Tensor:
        """Normalise x [B, C, H, W]; keeps its dtype."""
        return self.operator(x, self.scale, self.shift)


class ScaledWeight(nn.Module):
    """A layer with weight [out, in, kH, kW] and a factor of each output channel, or none.

    Every training step scales the weight anew, so by the chain rule its gradient equals that of the
    plain form. In evaluation mode it is scaled once: `eval` is called after all that changes it.
    """

    weight: Tensor
    scale: Tensor | None
    """One factor for each output channel."""
    kept: Tensor | None = None
    """weight * scale, in evaluation mode."""

    def train(self, mode: bool = True) -> Self:
        """See Module.train."""
        self.kept = None
        if not mode and self.scale is not None:
            self.kept = (self.weight * self.scale.view(-1, 1, 1, 1)).detach()
        return super().train(mode)

    @property
    def scaled(self) -> Tensor | None:
        """weight * scale, if it is kept and no gradients are wanted."""
        return None if torch.is_grad_enabled() else self.kept


class FoldedConv2d(ScaledWeight):
    """A convolution without bias and the frozen norm after it, as one convolution that learns.

    Its parameter is the convolution's own weight.
    """

    def __init__(self, conv: nn.Conv2d, norm: FrozenBatchNorm2d) -> None:
        super().__init__()
        self.stride, self.padding = conv.stride, conv.padding
        self.dilation, self.groups = conv.dilation, conv.groups
        self.weight = conv.weight
        self.scale: Tensor
        self.shift: Tensor
        scale, shift = norm.scale_and_shift()
        self.register_buffer("scale", scale[:, None, None, None])
        self.register_buffer("shift", shift)

    def forward(self, x: Tensor) -> Tensor:
        """Convolve and normalise x [B, C, H, W]."""
        kept = self.scaled
        weight = self.weight * self.scale if kept is None else kept
        return functional.conv2d(
            x, weight, self.shift, self.stride, self.padding, self.dilation, self.groups
        )


class FusedNorm(nn.Module):
    """A frozen norm with the residual and the ReLU after it, in one pass over memory.

    Args:
        norm: the plain form, which it replaces.
    """

    def __init__(self, norm: FrozenBatchNorm2d) -> None:
        super().__init__()
        self.scale: Tensor
        self.shift: Tensor
        scale, shift = norm.scale_and_shift()
        self.register_buffer("scale", scale)
        self.register_buffer("shift", shift)

    def forward(self, x: Tensor, residual: Tensor | None = None, relu: bool = False) -> Tensor:
        """Normalise x [B, C, H, W], add a residual of its shape, cut at 0; keeps x's dtype."""
        from kernels.ops.frozen_batch_norm import frozen_batch_norm

        return frozen_batch_norm(x, self.scale, self.shift, residual, relu)


def norm_then_relu(norm: nn.Module, x: Tensor, residual: Tensor | None = None) -> Tensor:
    """Return the ReLU of norm(x), of any form, plus a residual; the result is a new tensor."""
    if isinstance(norm, FusedNorm):
        y: Tensor = norm(x, residual, relu=True)
        return y
    y = norm(x)
    if residual is not None:
        y += residual
    return functional.relu(y, inplace=True)


def use_one_op(model: nn.Module, operator: ScaleShift) -> int:
    """Replace every frozen norm of a model by one operator; return their number."""
    return _replace_norms(model, lambda norm: OneOpNorm(norm, operator))


def fuse(model: nn.Module) -> int:
    """Replace every frozen norm of a model by a FusedNorm; return their number."""
    return _replace_norms(model, FusedNorm)


def _replace_norms(model: nn.Module, form: Callable[[FrozenBatchNorm2d], nn.Module]) -> int:
    found = [(name, m) for name, m in model.named_modules() if isinstance(m, FrozenBatchNorm2d)]
    for name, norm in found:
        model.set_submodule(name, form(norm))
    return len(found)


def fold(model: nn.Module) -> int:
    """Fold every frozen norm into the convolution before it; return their number.

    A convolution that learns becomes a FoldedConv2d; one that doesn't is scaled once and stays
    plain.
    """
    found = list(_norms_after_convolutions(model))
    for conv_name, norm_name in found:
        conv, norm = model.get_submodule(conv_name), model.get_submodule(norm_name)
        if not isinstance(conv, nn.Conv2d) or not isinstance(norm, FrozenBatchNorm2d):
            raise TypeError(f"{conv_name}, {norm_name}: not a convolution and its frozen norm")
        learns = conv.weight.requires_grad
        model.set_submodule(conv_name, FoldedConv2d(conv, norm) if learns else _scaled(conv, norm))
        model.set_submodule(norm_name, nn.Identity())
    return len(found)


def _norms_after_convolutions(model: nn.Module) -> Iterator[tuple[str, str]]:
    """Yield the names of each convolution and its norm: conv1 and bn1; 0 and 1 in a Sequential."""
    for name, module in model.named_modules():
        if isinstance(module, FrozenBatchNorm2d):
            parent, _, own = name.rpartition(".")
            before = own.replace("bn", "conv") if own.startswith("bn") else str(int(own) - 1)
            yield f"{parent}.{before}".lstrip("."), name


def _scaled(conv: nn.Conv2d, norm: FrozenBatchNorm2d) -> nn.Conv2d:
    scale, shift = norm.scale_and_shift()
    with torch.no_grad():
        conv.weight *= scale[:, None, None, None]
    conv.bias = nn.Parameter(shift, requires_grad=False)
    return conv


def addcmul(x: Tensor, scale: Tensor, shift: Tensor) -> Tensor:
    """Scale and shift in torch's own fused multiply and add."""
    return torch.addcmul(shift.to(x.dtype)[:, None, None], x, scale.to(x.dtype)[:, None, None])


ONE_OP: Mapping[str, ScaleShift] = {"addcmul": addcmul}
"""Values of `frozen_bn` that use one operator of torch."""


def apply_frozen_bn(model: nn.Module, form: str) -> None:
    """Convert the frozen norms of a model with loaded weights to the form `frozen_bn`."""
    if form == "folded":
        fold(model)
    elif form == "fused":
        fuse(model)
    elif form != "mul_add":
        use_one_op(model, ONE_OP[form])
