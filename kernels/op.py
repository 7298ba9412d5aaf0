"""The record of an operator, its registration with torch, and calls of the compiled library."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from kernels.library import REFERENCE, capabilities, function

NAMESPACE = "benchfarm"
_LIBRARY = torch.library.Library(NAMESPACE, "DEF")  # type: ignore[no-untyped-call] # torch's

_SUFFIX = {torch.float32: "f32", torch.bfloat16: "bf16"}


@dataclass(frozen=True, slots=True)
class TorchOp:
    """A function that torch knows as `benchfarm::NAME`, NAME being its schema's."""

    schema: str
    """As torch.library.Library.define takes it."""

    run: Callable[..., object]
    """What computes it on a CPU."""

    fake: Callable[..., object]
    """Results of the right shape and dtype, for torch.compile."""

    backward: Callable[..., object] | None = None
    """Its gradient formula, as torch.library.register_autograd takes it; None: it has none."""

    save: Callable[..., None] | None = None
    """What keeps what `backward` needs."""


@dataclass(frozen=True, slots=True)
class Op:
    """An operator: `OP` of kernels/ops/NAME.py, beside its public function NAME.

    All else is found by the operator's name: kernels.NAME, its case in kernels/bench/NAME.py, its
    place in `benchfarm kernels` and among the choices of the workload `kernels`.
    """

    dtypes: tuple[str, ...]
    """What runs compiled: of fp32 and bf16."""

    reference: Callable[..., object]
    """The definition, in plain torch; takes what the public function takes."""

    torch_ops: tuple[TorchOp, ...] = ()
    """What it registers; none if it is made of other operators."""


def register(op: Op) -> Op:
    """Make an operator's functions known to torch; called once, when its module is imported."""
    for torch_op in op.torch_ops:
        name = torch_op.schema.partition("(")[0]
        _LIBRARY.define(torch_op.schema, tags=(torch.Tag.pt2_compliant_tag,))  # type: ignore[no-untyped-call]
        _LIBRARY.impl(name, torch_op.run, "CPU")  # type: ignore[no-untyped-call]
        torch.library.register_fake(f"{NAMESPACE}::{name}", torch_op.fake, lib=_LIBRARY)
        if torch_op.backward:
            torch.library.register_autograd(
                f"{NAMESPACE}::{name}",
                torch_op.backward,
                setup_context=torch_op.save,
                lib=_LIBRARY,
            )
    return op


def once_differentiable(ctx: object, *grads: Tensor) -> Tensor:
    """Stand for the gradient of a gradient, which the compiled operators do not have."""
    raise NotImplementedError(
        "compiled kernels can be differentiated once; for more set BENCHFARM_KERNELS=reference"
    )


@torch.compiler.assume_constant_result  # type: ignore[untyped-decorator]
def is_compiled() -> bool:
    """Return whether there is a compiled variant to run at all; constant in a process."""
    return capabilities().variant != REFERENCE


def serves(*tensors: Tensor) -> bool:
    """Return whether the compiled library computes on these: fp32 or bf16, on a CPU."""
    fit = all(t.device.type == "cpu" and t.dtype in _SUFFIX for t in tensors)
    return fit and is_compiled()


def call(name: str, dtype: torch.dtype, *arguments: object) -> int | None:
    """Call this process's variant of a function for elements of a dtype, with torch's threads.

    A tensor, which has to be contiguous, stands for the address of its elements, None for a null
    pointer; the number of threads comes last.
    """
    run = function(f"{name}_{_SUFFIX[dtype]}", capabilities().variant)
    # `arguments` keeps the tensors alive until the call is over.
    plain = (a.data_ptr() if isinstance(a, Tensor) else a for a in arguments)
    return run(*plain, torch.get_num_threads())


def one_number(grad: Tensor, shape: Sequence[int]) -> bool:
    """Return whether an upstream gradient is the same for all elements of a shape."""
    return grad.shape != torch.Size(shape) or not any(grad.stride())
