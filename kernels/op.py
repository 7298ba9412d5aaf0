"""The record of an operator, its registration with torch, and calls of the compiled library."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import wraps

import torch
from torch import Tensor
from torch.autograd import forward_ad

from kernels.library import REFERENCE, capabilities, function

NAMESPACE = "benchfarm"
_LIBRARY = torch.library.Library(NAMESPACE, "DEF")  # type: ignore[no-untyped-call] # torch's

_SUFFIX = {torch.float32: "f32", torch.bfloat16: "bf16"}


@dataclass(frozen=True, slots=True)
class TorchOp:
    """A function registered with torch as `benchfarm::NAME`; NAME is in its schema."""

    schema: str
    """Schema for torch.library.Library.define."""

    run: Callable[..., object]
    """The implementation for CPUs."""

    fake: Callable[..., object]
    """Returns results of the right shape and dtype, for torch.compile."""

    backward: Callable[..., object] | None = None
    """Gradient formula for torch.library.register_autograd; None without a gradient."""

    save: Callable[..., None] | None = None
    """Saves what `backward` needs."""


@dataclass(frozen=True, slots=True)
class Op:
    """An operator: `OP` of kernels/ops/NAME.py, beside its public function NAME.

    Everything else is found by name: kernels.NAME, its case in kernels/bench/NAME.py, its place in
    `benchfarm kernels` and among the choices of the workload `kernels`.
    """

    dtypes: tuple[str, ...]
    """Dtypes that run compiled: fp32, bf16."""

    reference: Callable[..., object]
    """The definition in plain torch, with the public function's arguments."""

    torch_ops: tuple[TorchOp, ...] = ()
    """Functions registered with torch; empty if it is made of other operators."""


def register(op: Op) -> Op:
    """Register an operator's functions with torch; called once, when its module is imported."""
    for torch_op in op.torch_ops:
        name = torch_op.schema.partition("(")[0]
        _LIBRARY.define(torch_op.schema, tags=(torch.Tag.pt2_compliant_tag,))  # type: ignore[no-untyped-call]
        _LIBRARY.impl(name, torch_op.run, "CPU")  # type: ignore[no-untyped-call]
        torch.library.register_fake(f"{NAMESPACE}::{name}", torch_op.fake, lib=_LIBRARY)
        if torch_op.backward:
            torch.library.register_autograd(
                f"{NAMESPACE}::{name}",
                _without_tangents(torch_op.backward),
                setup_context=torch_op.save,
                lib=_LIBRARY,
            )
    return op


def _without_tangents(backward: Callable[..., object]) -> Callable[..., object]:
    """Return a gradient formula that refuses tangents: torch would take them for 0."""

    @wraps(backward)
    def run(ctx: object, *grads: Tensor | None) -> object:
        if _in_forward_mode():
            raise NotImplementedError(
                "compiled kernels have no forward-mode derivatives; for these set "
                "BENCHFARM_KERNELS=reference, or run the forward pass within the dual level"
            )
        return backward(ctx, *grads)

    return run


def _in_forward_mode() -> bool:
    """Return whether tensors may have tangents here: within a dual level or torch.func.jvp."""
    return forward_ad._current_level >= 0


def once_differentiable(ctx: object, *grads: Tensor) -> Tensor:
    """Raise an error for the gradient of a gradient, which the compiled operators don't have."""
    raise NotImplementedError(
        "compiled kernels can be differentiated once; for more set BENCHFARM_KERNELS=reference"
    )


@torch.compiler.assume_constant_result  # type: ignore[untyped-decorator]
def is_compiled() -> bool:
    """Return whether a compiled variant can run at all; constant in a process."""
    return capabilities().variant != REFERENCE


def serves(*tensors: Tensor) -> bool:
    """Return whether the compiled library supports these tensors: fp32 or bf16, on a CPU.

    It has no forward-mode derivatives: where tensors may have tangents, plain torch computes.
    """
    fit = on_cpu(*tensors) and all(t.dtype in _SUFFIX for t in tensors)
    return fit and not _in_forward_mode() and is_compiled()


def on_cpu(*tensors: Tensor) -> bool:
    """Return whether the memory of all tensors can be read here."""
    return all(t.device.type == "cpu" for t in tensors)


def call(name: str, dtype: torch.dtype, *arguments: object) -> int | None:
    """Call this process's variant of a function for a dtype, with torch's number of threads.

    Tensors, which must be contiguous, are passed as addresses, None as a null pointer; the number
    of threads comes last.
    """
    run = function(f"{name}_{_SUFFIX[dtype]}", capabilities().variant)
    # `arguments` keeps the tensors alive during the call.
    plain = (a.data_ptr() if isinstance(a, Tensor) else a for a in arguments)
    return run(*plain, torch.get_num_threads())


def one_number(grad: Tensor, shape: Sequence[int]) -> bool:
    """Return whether an upstream gradient is the same for all elements of a shape."""
    return grad.shape != torch.Size(shape) or not any(grad.stride())
