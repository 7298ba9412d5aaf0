"""What a fused optimizer's update moves, by what a trace tells of it. Pure.

It reads the parameters, their gradients and its moments, and writes all but the gradients. A copy's
rate is no limit for that: it has a roof of its own (`controller.contracts.peaks.UPDATE`).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final, NamedTuple

from controller.profiles.model import Place
from controller.profiles.operations import element_bytes, elements, main_type, shapes, values_of

ACCUMULATED: Final = "torch::autograd::AccumulateGrad"
"""Node of autograd that stores a parameter's gradient; its input has the parameter's size and data
type. Traces omit the type of an update's lists of tensors, and the sizes of more than 30."""
OF_MASTERS: Final = "benchfarm::adam_step"
"""Our Adam: a bf16 weight is read as its fp32 master and as a gradient of 2 bytes, and written as
both, so that it moves as many bytes as one in fp32."""
PASSES: Final[Mapping[str, int]] = {
    "aten::_fused_sgd_": 3,
    "aten::_fused_adam_": 7,
    "aten::_fused_adamw_": 7,
    "aten::_fused_adagrad_": 5,
    OF_MASTERS: 7,
}
"""Kernel → how often it reads or writes as many bytes as the parameters have."""
MORE: Final[Mapping[str, int]] = {
    "aten::_fused_sgd_": 4,
    "aten::_fused_adam_": 11,
    "aten::_fused_adamw_": 11,
}
"""Kernel → index of the input, momentum or amsgrad, with which it has a moment more."""
ONE_MOMENT: Final = 2
FP32_BYTES: Final = 4


class Accumulated(NamedTuple):
    """An AccumulateGrad of a trace: sizes and types of its input, as JSON, and calls a step."""

    dims: str
    dtypes: str
    calls: float


def is_update(kernel: str) -> bool:
    """Return whether a kernel is a fused optimizer's update."""
    return kernel in PASSES


class Learning(NamedTuple):
    """The parameters that learn."""

    numbers: float
    bytes_of_one: int | None
    """None if they have several types."""


def parameters(found: Iterable[Accumulated]) -> Learning | None:
    """Return the parameters that learn; None if nothing tells.

    That is so if each gradient is stored once a step.
    """
    found = list(found)
    sizes = {element_bytes(main_type(one.dtypes)) for one in found}
    count = sum(one.calls * elements(size) for one in found for size in shapes(one.dims)[:1])
    if not count or None in sizes:
        return None
    return Learning(count, sizes.pop() if len(sizes) == 1 else None)


def is_one_group(kernels: Iterable[Place]) -> bool:
    """Return whether all updates among kernels have the same inputs.

    Torch updates each group of parameters by a call of its own, and a trace doesn't tell which
    parameters are in it. Nor is it one if its learning rate changes between steps.
    """
    return sum(is_update(place.kernel) for place in kernels) <= 1


def update_bytes(kernel: str, values: str, learning: Learning | None) -> float | None:
    """Return the bytes that all updates of a step read and write; None if not known.

    values: inputs that are not tensors, as JSON.
    """
    inputs = values_of(values)
    at = MORE.get(kernel)
    if learning is None or (at is not None and at >= len(inputs)):
        return None
    has_more = at is not None and inputs[at] not in ("0.", "0", "False")
    size = FP32_BYTES if kernel == OF_MASTERS else learning.bytes_of_one
    return (PASSES[kernel] + ONE_MOMENT * has_more) * size * learning.numbers if size else None
