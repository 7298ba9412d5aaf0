"""A step of Adam on the heads of RetinaNet: their towers' weights and the class logits'."""

from __future__ import annotations

from functools import partial

import torch
from torch import Tensor

from kernels.bench.case import DTYPES, Case, Operator, bytes_of, compiled, differ
from kernels.ops.adam_step import OP, adam_step
from kernels.reference.adam_step import adam_step as plain

SHAPES = [*[(256, 3, 3, 256)] * 8, (9 * 264, 3, 3, 256)]
LEARNING_RATE = 1e-4
ERROR = 1e-6
"""A few roundings of fp32, relative to the largest value."""

Lists = tuple[list[Tensor], list[Tensor], list[Tensor], list[Tensor], list[Tensor]]


def case(dtype: str, shape: str) -> Case:
    """Return the case of adam_step; bf16 is the dtype of weights and gradients, never of
    masters."""
    lists = some(dtype)
    moved = [*lists[0], *lists[1]] if dtype == "bf16" else lists[1]
    kept = [t for tensors in lists[2:] for t in tensors]

    eager = partial(plain, step=100, learning_rate=LEARNING_RATE)
    return Case(
        shape=shape,
        kernel=partial(adam_step, *lists, step=100, learning_rate=LEARNING_RATE),
        baselines={"eager": partial(eager, *lists), "compile": partial(compiled(eager), *lists)},
        moved_bytes=bytes_of(*moved) + 2 * bytes_of(*kept),
        largest_bytes=bytes_of(*lists[2]),
        objections=partial(objections, dtype),
    )


def some(dtype: str) -> Lists:
    """Return weights, gradients, masters and moments, as of a training that has begun."""
    generator = torch.Generator().manual_seed(11)
    masters, gradients, means, squares = (
        [torch.randn(shape, generator=generator) * size for shape in SHAPES]
        for size in (0.01, 1e-3, 1e-3, 1e-3)
    )
    weights = [m if dtype == "fp32" else m.to(DTYPES[dtype]) for m in masters]
    gradients = [g.to(DTYPES[dtype]) for g in gradients]
    return weights, gradients, masters, means, [s.square() for s in squares]


def objections(dtype: str) -> list[str]:
    """Return what is wrong after three steps, beside float64."""
    mine, others = some(dtype), [[t.double() for t in tensors] for tensors in some(dtype)]
    true = others[2], *others[1:]  # in float64 the masters are the weights
    found = []
    for step in (1, 2, 3):
        adam_step(*mine, step=step, learning_rate=LEARNING_RATE)
        plain(*true, step=step, learning_rate=LEARNING_RATE)
    for name, of, truths in zip(("master", "mean", "square"), mine[2:], true[2:], strict=True):
        for k, (tensor, truth) in enumerate(zip(of, truths, strict=True)):
            found += differ(f"{name} {k}", tensor, truth, ERROR)
    rounded = zip(mine[0], mine[2], strict=True)
    if not all(torch.equal(weight, master.to(weight.dtype)) for weight, master in rounded):
        found.append("a weight is not its master, rounded")
    return found


OPERATOR = Operator(OP.dtypes, (f"{len(SHAPES)} weights of the heads",), case)
