"""Adam on fp32 masters of weights, all of a model's in one pass."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor
from torch.autograd.graph import increment_version

from kernels.op import Op, TorchOp, call, register, serves
from kernels.reference import adam_step as reference

Tensors = Sequence[Tensor]


def adam_step(
    weights: Tensors,
    gradients: Tensors,
    masters: Tensors,
    means: Tensors,
    squares: Tensors,
    *,
    step: int,
    learning_rate: float,
    betas: tuple[float, float] = (0.9, 0.999),
    eps: float = 1e-8,
) -> None:
    """Do a step of Adam (Kingma and Ba, arXiv 1412.6980, algorithm 1) in place.

    All tensors are contiguous, and those of one weight have its shape. fp32 masters and moments on
    a CPU, with weights and gradients in bf16 or, of a weight that is its own master, in fp32, run
    compiled; any others in plain torch. The sums are fp32 throughout; a bf16 weight is its master,
    rounded.

    Args:
        weights: what layers compute with; where that is the master, the master itself.
        gradients: of each weight, in its dtype.
        masters: what is learnt.
        means, squares: Adam's moments; zeros before the first step.
        step: counted from 1.
        learning_rate, betas, eps: Adam's.

    Raises:
        ValueError: tensors don't fit.
    """
    each = list(zip(weights, gradients, masters, means, squares, strict=True))
    for weight, *others in each:
        if not all(t.shape == weight.shape and t.is_contiguous() for t in (weight, *others)):
            shapes = ", ".join(str(list(t.shape)) for t in (weight, *others))
            raise ValueError(f"{shapes}: expected contiguous tensors of one shape")
    given = weights, gradients, masters, means, squares
    if not (each and all(_fits(*tensors) for tensors in each)):
        reference.adam_step(*given, step=step, learning_rate=learning_rate, betas=betas, eps=eps)
        return
    length, root = learning_rate / (1 - betas[0] ** step), (1 - betas[1] ** step) ** 0.5
    # A tensor, since a trace tells calls with other plain numbers apart: each step's would be.
    numbers = torch.tensor([1 - betas[0], 1 - betas[1], length, root, eps], dtype=torch.float64)
    torch.ops.benchfarm.adam_step(*map(list, given), numbers)
    # As torch's own operators in place do: a graph that has kept one of them is no longer right.
    increment_version([t for tensors in (weights, *given[2:]) for t in tensors])


def _fits(weight: Tensor, gradient: Tensor, *kept: Tensor) -> bool:
    """Return whether the library takes tensors: weight, gradient, master and moments."""
    if not serves(weight, gradient, *kept) or any(t.dtype != torch.float32 for t in kept):
        return False
    if weight.dtype == torch.float32 and weight.data_ptr() != kept[0].data_ptr():
        return False
    return weight.dtype == gradient.dtype


def _run(
    weights: list[Tensor],
    gradients: list[Tensor],
    masters: list[Tensor],
    means: list[Tensor],
    squares: list[Tensor],
    numbers: Tensor,
) -> None:
    lists = weights, gradients, masters, means, squares
    rows = [[t.data_ptr() for t in tensors] for tensors in zip(*lists, strict=True)]
    for row, weight in zip(rows, weights, strict=True):
        if weight.dtype == torch.float32:
            row[0] = 0
    addresses = torch.tensor(rows, dtype=torch.int64)
    counts = torch.tensor([w.numel() for w in weights], dtype=torch.int64)
    call("adam_step", torch.float32, addresses, counts, len(rows), *numbers.tolist())


def _fake(*given: object) -> None:
    """Return what a step does: it changes what it is given."""


OP = register(
    Op(
        dtypes=("fp32", "bf16"),
        reference=reference.adam_step,
        torch_ops=(
            TorchOp(
                "adam_step(Tensor(a!)[] weights, Tensor[] gradients, Tensor(b!)[] masters,"
                " Tensor(c!)[] means, Tensor(d!)[] squares, Tensor numbers) -> ()",
                _run,
                _fake,
            ),
        ),
    )
)
