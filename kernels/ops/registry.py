"""How operators become torch's, and when the compiled library serves a call."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch
from torch import Tensor

from kernels.library import REFERENCE, capabilities, function

NAMESPACE = "benchfarm"
_LIBRARY = torch.library.Library(NAMESPACE, "DEF")  # type: ignore[no-untyped-call] # torch's

_SUFFIX = {torch.float32: "f32", torch.bfloat16: "bf16"}


def define(schema: str, run: Callable[..., object], fake: Callable[..., object]) -> None:
    """Register an operator: its schema, what runs it on a CPU, and the shapes that gives."""
    name = schema.partition("(")[0]
    _LIBRARY.define(schema, tags=(torch.Tag.pt2_compliant_tag,))  # type: ignore[no-untyped-call]
    _LIBRARY.impl(name, run, "CPU")  # type: ignore[no-untyped-call]
    torch.library.register_fake(f"{NAMESPACE}::{name}", fake, lib=_LIBRARY)


def differentiate(
    name: str, backward: Callable[..., object], save: Callable[..., None] | None = None
) -> None:
    """Register an operator's gradient formula and what it keeps for that."""
    torch.library.register_autograd(
        f"{NAMESPACE}::{name}", backward, setup_context=save, lib=_LIBRARY
    )


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
