"""A case: what is measured of an operator, against what, and when its results are wrong.

Cases have the size RetinaNet gives an operator. Inputs are seeded; upstream gradients are never 1.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache

import torch
from torch import Tensor

UPSTREAM = 0.37
"""Upstream gradient of reduced losses."""

DTYPES: Mapping[str, torch.dtype] = {"fp32": torch.float32, "bf16": torch.bfloat16}

COMPILED = "compile"
"""What names of baselines by torch.compile begin with."""

Work = Callable[[], object]
"""One timed run: forward, and backward where there is one."""


@dataclass(frozen=True, slots=True)
class Case:
    """One operator on one set of inputs."""

    shape: str
    kernel: Work
    baselines: Mapping[str, Work]
    """`eager`: the reference in plain torch; `compile`: the same by torch.compile, static shapes.
    Compiled on the first call; absent where the reference's shapes depend on the data.
    `compile_rewritten`: a reference written anew for the compiler, which training code isn't."""

    moved_bytes: int
    """What no implementation can do without: inputs read once, results written once."""

    largest_bytes: int
    """The largest input: what extra memory is measured by."""

    objections: Callable[[], list[str]]
    """Says how the kernel's results are wrong; empty if they are right."""


@dataclass(frozen=True, slots=True)
class Operator:
    """What can be measured of one operator: `OPERATOR` of kernels/bench/NAME.py."""

    dtypes: tuple[str, ...]
    shapes: tuple[str, ...]
    """Names of its inputs, the first of them the usual one."""

    case: Callable[[str, str], Case]
    """Return the case of a dtype and a shape."""


def compiled(function: Callable[..., object]) -> Callable[..., object]:
    """Return a function by torch.compile with static shapes; made when it is first called."""

    @cache
    def made() -> Callable[..., object]:
        compiled_function: Callable[..., object] = torch.compile(function, dynamic=False)
        return compiled_function

    return lambda *arguments: made()(*arguments)


def bytes_of(*tensors: Tensor | None) -> int:
    """Return how much memory the elements of tensors take."""
    return sum(t.numel() * t.element_size() for t in tensors if t is not None)


def differ(what: str, mine: Tensor, truth: Tensor, bound: float) -> list[str]:
    """Say if `mine` is further than `bound` from the truth, relative to the truth's largest."""
    if mine.shape != truth.shape:
        return [f"{what}: shape {list(mine.shape)}, expected {list(truth.shape)}"]
    if not truth.numel():
        return []
    scale = truth.double().abs().max().clamp(min=1e-300)
    error = ((mine.double() - truth.double()).abs().max() / scale).item()
    # A NaN is no smaller than anything.
    return [] if error <= bound else [f"{what}: relative error {error:.2e}, bound {bound:.0e}"]


def unequal(what: str, mine: Tensor, truth: Tensor) -> list[str]:
    """Say if `mine` is not exactly the truth."""
    if torch.equal(mine, truth):
        return []
    if mine.shape != truth.shape:
        return [f"{what}: {len(mine)}, expected {len(truth)}"]
    return [f"{what}: {int((mine != truth).sum())} of {len(truth)} differ from the reference's"]
