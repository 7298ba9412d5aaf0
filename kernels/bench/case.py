"""A case: an operator on certain inputs, its baselines, and the check of its results.

Cases have the sizes of RetinaNet. Inputs are seeded; upstream gradients are never 1.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from typing import Generic, Literal, TypeVar

import torch
from torch import Tensor

UPSTREAM = 0.37
"""Upstream gradient of reduced losses."""

DTYPES: Mapping[str, torch.dtype] = {"fp32": torch.float32, "bf16": torch.bfloat16}

COMPILED = "compile"
"""Prefix of the names of baselines by torch.compile."""

Direction = Literal["both", "forward", "backward"]
"""What is timed of an operator: all of its passes together, or one alone."""

Work = Callable[[], object]
"""One timed run: forward, and backward if there is one."""

Function = Callable[..., object]
"""Another implementation of an operator."""

Results = Sequence[Tensor]
"""A loss and its gradient."""

Y = TypeVar("Y")


@dataclass(frozen=True, slots=True)
class Differentiated(Generic[Y]):
    """Work of an operator with a gradient, whose two passes can be timed apart."""

    forward: Callable[[], Y]
    backward: Callable[[Y], object]
    """Computes the gradients of what `forward` returned; it is called once for each."""

    def __call__(self) -> object:
        """Run both passes."""
        return self.backward(self.forward())


@dataclass(frozen=True, slots=True)
class Comparator:
    """The same work as done by another implementation."""

    work: Work
    objections: Callable[[], list[str]]
    """Returns why it is not the same work on few rows; empty if it is."""

    differences: Callable[[Results, Results], list[str]]
    """Returns how its results on the timed inputs differ from the kernel's."""

    changes: Callable[[], list[str]]
    """Returns that it has changed the timed inputs, if it has."""


@dataclass(frozen=True, slots=True)
class Case:
    """One operator on one set of inputs."""

    shape: str
    kernel: Work
    baselines: Mapping[str, Work]
    """`eager`: the reference in plain torch. `compile`: the reference by torch.compile with static
    shapes; compiled on the first call; absent if shapes depend on the data. `compile_rewritten`: a
    reference rewritten for the compiler, unlike training code."""

    moved_bytes: int
    """Bytes that any implementation has to move: inputs read once, results written once."""

    largest_bytes: int
    """Size of the largest input, to which extra memory is compared."""

    objections: Callable[[], list[str]]
    """Returns what is wrong with the kernel's results; empty if nothing."""

    passes: Mapping[Direction, int] = field(default_factory=dict)
    """The bytes to move in the forward and in the backward pass alone. Empty: the operator has no
    gradient. Otherwise kernel and baselines are Differentiated."""

    comparator: Callable[[Function], Comparator] | None = None
    """Returns the work of an implementation that users bring; None: the case takes none."""

    def bytes_in(self, direction: Direction) -> int:
        """Return the bytes to move in a direction; raises KeyError if there is no gradient."""
        return self.moved_bytes if direction == "both" else self.passes[direction]


@dataclass(frozen=True, slots=True)
class Operator:
    """The benchmarks of one operator: `OPERATOR` of kernels/bench/NAME.py."""

    dtypes: tuple[str, ...]
    shapes: tuple[str, ...]
    """Names of its inputs; the first is the usual one."""

    case: Callable[[str, str], Case]
    """Returns the case for a dtype and a shape."""


def compiled(function: Callable[..., object]) -> Callable[..., object]:
    """Return a function by torch.compile with static shapes; compiled when first called."""

    @cache
    def made() -> Callable[..., object]:
        compiled_function: Callable[..., object] = torch.compile(function, dynamic=False)
        return compiled_function

    return lambda *arguments: made()(*arguments)


def bytes_of(*tensors: Tensor | None) -> int:
    """Return the bytes of the elements of tensors."""
    return sum(t.numel() * t.element_size() for t in tensors if t is not None)


def differ(what: str, mine: Tensor, truth: Tensor, bound: float) -> list[str]:
    """Return a message if `mine` differs by more than `bound`, relative to the truth's largest
    value."""
    if mine.shape != truth.shape:
        return [f"{what}: shape {list(mine.shape)}, expected {list(truth.shape)}"]
    if not truth.numel():
        return []
    scale = truth.double().abs().max().clamp(min=1e-300)
    error = ((mine.double() - truth.double()).abs().max() / scale).item()
    # The negated comparison also catches NaN.
    return [] if error <= bound else [f"{what}: relative error {error:.2e}, bound {bound:.0e}"]


def unequal(what: str, mine: Tensor, truth: Tensor) -> list[str]:
    """Return a message if `mine` differs from the truth at all."""
    if torch.equal(mine, truth):
        return []
    if mine.shape != truth.shape:
        return [f"{what}: {len(mine)}, expected {len(truth)}"]
    return [f"{what}: {int((mine != truth).sum())} of {len(truth)} differ from the reference's"]
