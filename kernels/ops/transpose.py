"""Matrix transposition; oneDNN's bf16 products need their left factor transposed."""

from __future__ import annotations

import torch
from torch import Tensor

from kernels.op import Op, TorchOp, call, register, serves
from kernels.reference.transpose import transpose as reference


def transpose(x: Tensor) -> Tensor:
    """Return x [M, N] as a contiguous [N, M], like `x.t().contiguous()`."""
    if x.dim() != 2 or not serves(x):
        return reference(x)
    result: Tensor = torch.ops.benchfarm.transpose(x)
    return result


def _run(x: Tensor) -> Tensor:
    y = _fake(x)
    call("transpose", x.dtype, x.contiguous(), *x.shape, y)
    return y


def _fake(x: Tensor) -> Tensor:
    return x.new_empty(x.shape[::-1])


def _backward(ctx: object, grad: Tensor) -> Tensor:
    result: Tensor = torch.ops.benchfarm.transpose(grad)
    return result


OP = register(
    Op(
        dtypes=("fp32", "bf16"),
        reference=reference,
        torch_ops=(TorchOp("transpose(Tensor x) -> Tensor", _run, _fake, _backward),),
    )
)
