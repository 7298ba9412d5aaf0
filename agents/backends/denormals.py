"""Denormal numbers: too small for all of their digits, which many CPUs compute with far slower."""

from __future__ import annotations

from typing import NamedTuple, TypeGuard

import torch
from torch import Tensor
from torch.nn import Module

from controller.contracts.errors import WorkerFault
from controller.contracts.result import Blame, Environment, Failure

CHUNK = 2**20
"""Numbers that are looked at together, so that the copies of their bits stay in caches."""


class _Bits(NamedTuple):
    """A format's numbers as integers of their bits: a denormal's are above 0 and below `normal`,
    but for the sign."""

    integer: torch.dtype
    magnitude: int
    normal: int


_FORMATS = {
    torch.float64: _Bits(torch.int64, 2**63 - 1, 2**52),
    torch.float32: _Bits(torch.int32, 2**31 - 1, 2**23),
    torch.float16: _Bits(torch.int16, 2**15 - 1, 2**10),
    torch.bfloat16: _Bits(torch.int16, 2**15 - 1, 2**7),
}
"""Formats of IEEE 754, and bfloat16 with float32's range."""


def denormal_facts(model: Module) -> Environment:
    """Return the share of denormal numbers in a model's parameters and gradients.

    None of no numbers. It reads all of them, so call it outside of what is timed.
    """
    tensors = [t for p in model.parameters() for t in (p.detach(), p.grad) if _is_dense(t)]
    numbers = sum(tensor.numel() for tensor in tensors)
    share = sum(map(denormals_in, tensors)) / numbers if numbers else None
    return {"denormal_share": share}


def _is_dense(tensor: object) -> TypeGuard[Tensor]:
    if not isinstance(tensor, Tensor) or tensor.layout is not torch.strided:
        return False
    return tensor.dtype in _FORMATS


@torch.no_grad()
def denormals_in(tensor: Tensor) -> int:
    """Return how many of a tensor's numbers are denormal, by their bits.

    Comparisons of the numbers themselves take them for zero where they are flushed.
    """
    bits = _FORMATS[tensor.dtype]
    chunks = torch.split(tensor.view(bits.integer).flatten(), CHUNK)
    magnitudes = (chunk & bits.magnitude for chunk in chunks)
    return sum(int(torch.count_nonzero((m > 0) & (m < bits.normal))) for m in magnitudes)


def flush_denormals() -> None:
    """Take denormal numbers for zero, in this thread and in those of OpenMP that it starts later.

    Raises WorkerFault, blame user, where a thread keeps them: the mode is one of each thread.
    """
    if torch.set_flush_denormal(True) and not _are_kept():
        return
    message = (
        "cannot flush denormals: the CPU lacks it, or threads were started before. "
        "Set the knob flush_denormals to false."
    )
    raise WorkerFault(Failure(blame=Blame.USER, kind="knobs", message=message))


def _are_kept() -> bool:
    """Return whether any thread of a parallel operation makes denormal numbers."""
    smallest = torch.full((CHUNK,), torch.finfo(torch.float32).tiny)
    return denormals_in(smallest / 2) > 0
