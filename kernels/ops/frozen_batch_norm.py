"""Batch norm with fixed statistics, residual and ReLU in one pass, their gradients in another."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from kernels.op import Op, TorchOp, call, once_differentiable, register, serves
from kernels.reference import frozen_batch_norm as reference


def frozen_batch_norm(
    x: Tensor, scale: Tensor, shift: Tensor, residual: Tensor | None = None, relu: bool = False
) -> Tensor:
    """Return x * scale + shift for each channel, + residual, then max(·, 0); keeps x's dtype.

    Computed in fp32 and rounded once. x in fp32 or bf16 on a CPU runs compiled, whether its
    channels are its second dimension or (channels-last) its innermost; with other dtypes, a
    residual of another one than x's, a scale or shift that requires a gradient or is not fp32, it
    runs in plain torch.

    Args:
        x: [N, C, …].
        scale: [C]: weight / sqrt(running variance + eps) of the batch norm.
        shift: [C]: bias - running mean * scale.
        residual: of x's shape, or None.
        relu: whether negative results become 0.

    Raises:
        ValueError: shapes don't fit.
    """
    if x.dim() < 2 or not scale.shape == shift.shape == x.shape[1:2]:
        raise ValueError(
            f"x {list(x.shape)}, scale {list(scale.shape)}, shift {list(shift.shape)}: "
            "expected [N, C, …], [C], [C]"
        )
    if residual is not None and residual.shape != x.shape:
        raise ValueError(f"x {list(x.shape)}, residual {list(residual.shape)}: must agree")
    added = [] if residual is None else [residual]
    fits = all(t.dtype == x.dtype for t in added) and _is_plain(scale) and _is_plain(shift)
    if not (fits and serves(x, *added, scale, shift)):
        return reference.frozen_batch_norm(x, scale, shift, residual, relu)
    y: Tensor = torch.ops.benchfarm.frozen_batch_norm(x, scale, shift, residual, relu)
    return y


def _is_plain(of_channels: Tensor) -> bool:
    return of_channels.dtype == torch.float32 and not of_channels.requires_grad


def _memory_format(x: Tensor) -> torch.memory_format:
    """Return the memory format of x's elements, or the one to convert them to."""
    channels_last = (
        x.dim() == 4
        and not x.is_contiguous()
        and x.is_contiguous(memory_format=torch.channels_last)
    )
    return torch.channels_last if channels_last else torch.contiguous_format


def _extents(x: Tensor) -> tuple[int, int, int]:
    """Return the extents of x as [outer, channels, inner]; inner is 1 if channels are innermost."""
    if _memory_format(x) == torch.channels_last:
        return x.shape[0] * x.shape[2] * x.shape[3], x.shape[1], 1
    return x.shape[0], x.shape[1], x[0, 0].numel() if x.shape[0] and x.shape[1] else 0


def _forward(
    x: Tensor, scale: Tensor, shift: Tensor, residual: Tensor | None, relu: bool
) -> Tensor:
    layout = _memory_format(x)
    x = x.contiguous(memory_format=layout)
    residual = None if residual is None else residual.contiguous(memory_format=layout)
    y = torch.empty_like(x)
    call(
        "frozen_batch_norm_forward",
        x.dtype,
        x,
        *_extents(x),
        scale.contiguous(),
        shift.contiguous(),
        residual,
        relu,
        y,
    )
    return y


def _backward(
    grad: Tensor, y: Tensor | None, scale: Tensor, with_residual: bool
) -> tuple[Tensor, Tensor]:
    layout = _memory_format(grad if y is None else y)
    grad = grad.contiguous(memory_format=layout)
    y = None if y is None else y.contiguous(memory_format=layout)
    grad_x, grad_residual = _fake_backward(grad, y, scale, with_residual)
    call(
        "frozen_batch_norm_backward",
        grad.dtype,
        grad,
        *_extents(grad),
        scale.contiguous(),
        y,
        grad_x,
        grad_residual if with_residual else None,
    )
    return grad_x, grad_residual


def _fake_forward(x: Tensor, *_: object) -> Tensor:
    return torch.empty_like(x.contiguous(memory_format=_memory_format(x)))


def _fake_backward(
    grad: Tensor, y: Tensor | None, scale: Tensor, with_residual: bool
) -> tuple[Tensor, Tensor]:
    layout = _memory_format(grad if y is None else y)
    grad_x = torch.empty_like(grad.contiguous(memory_format=layout))
    return grad_x, torch.empty_like(grad_x) if with_residual else grad_x.new_empty(0)


def _save(ctx: Any, inputs: tuple[Any, ...], output: Tensor) -> None:  # noqa: ANN401 - torch's
    _, scale, _, residual, relu = inputs
    ctx.save_for_backward(scale, *([output] if relu else []))
    ctx.has_residual = residual is not None


def _differentiate(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:  # noqa: ANN401
    scale, *kept = ctx.saved_tensors
    y = kept[0] if kept else None
    # Without ReLU the residual's gradient is the upstream gradient itself.
    masked = ctx.has_residual and y is not None and ctx.needs_input_grad[3]
    grad_x, grad_residual = torch.ops.benchfarm.frozen_batch_norm_backward(grad, y, scale, masked)
    of_residual = grad_residual if masked else grad if ctx.has_residual else None
    return grad_x, None, None, of_residual, None


OP = register(
    Op(
        dtypes=("fp32", "bf16"),
        reference=reference.frozen_batch_norm,
        torch_ops=(
            TorchOp(
                "frozen_batch_norm(Tensor x, Tensor scale, Tensor shift, Tensor? residual,"
                " bool relu) -> Tensor",
                _forward,
                _fake_forward,
                _differentiate,
                _save,
            ),
            TorchOp(
                "frozen_batch_norm_backward(Tensor grad, Tensor? y, Tensor scale,"
                " bool with_residual) -> (Tensor, Tensor)",
                _backward,
                _fake_backward,
                once_differentiable,
            ),
        ),
    )
)
