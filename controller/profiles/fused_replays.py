"""Kernels of torch that run a primitive with the operations fused behind it. Pure.

oneDNN writes them as `sum`, `eltwise_clip:-1:2` or `binary_add:bf16:3:ab`, several with + between.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from controller.profiles.primitive import Primitive
from controller.profiles.replay_arguments import (
    DTYPES,
    Argument,
    NotReplayable,
    dtype_of,
    tensor,
    value,
    values,
)

_NUMBER: Final = re.compile(r"-?[0-9]{1,15}(\.[0-9]{1,15})?(e[-+]?[0-9]{1,2})?")
_PLAIN: Final[Mapping[str, tuple[str, str, Sequence[str]]]] = {
    "eltwise_gelu_erf": ("gelu", "none", ()),
    "eltwise_gelu_tanh": ("gelu", "tanh", ()),
    "eltwise_hardsigmoid": ("hardsigmoid", "", ("0.166667", "0.5")),
    "eltwise_hardswish": ("hardswish", "", ("0.166667", "0.5")),
    "eltwise_logistic": ("sigmoid", "", ("1",)),
    "eltwise_swish": ("swish", "", ("1",)),
    "eltwise_tanh": ("tanh", "", ()),
}
"""oneDNN's function → torch's name and algorithm, and the only settings that torch gives it."""
_BINARY: Final[Mapping[str, str]] = {
    "binary_add": "add",
    "binary_div": "div",
    "binary_mul": "mul",
    "binary_sub": "sub",
}
Task = tuple[str, list[Argument]]
"""A kernel and its arguments."""


@dataclass(frozen=True, slots=True)
class Activation:
    """An activation as torch's kernels take it."""

    name: str
    algorithm: str = ""
    scalars: tuple[float, ...] = ()

    def arguments(self) -> list[Argument]:
        """Return it as the last three arguments of a kernel."""
        return [value(self.name), Argument(value=repr(list(self.scalars))), value(self.algorithm)]


NO_ACTIVATION: Final = Activation("none")


def fused_linear(primitive: Primitive, tensors: Sequence[Argument], found: Sequence[int]) -> Task:
    """Return an inner product with what is fused behind it; raises NotReplayable.

    tensors: source, weights and bias. found: sizes of the output.
    """
    source, *learned = tensors
    if binary := _binary_of(primitive, found):
        name, other, rest = binary
        if not rest:
            return "mkldnn::_linear_pointwise.binary", [source, other, *learned, value(name)]
        raise _no_kernel(primitive)
    activation = _activation_of(primitive)
    return "mkldnn::_linear_pointwise", [*tensors, *activation.arguments()]


def fused_convolution(
    primitive: Primitive,
    tensors: Sequence[Argument],
    found: Sequence[int],
    settings: Sequence[Argument],
    *,
    last: bool,
) -> Task:
    """Return a convolution with what is fused behind it; raises NotReplayable.

    tensors: source, weights and bias. found: sizes of the output. settings: padding, stride,
    dilation, groups. last: whether it is channels-last.
    """
    source, *learned = tensors
    first, *rest = primitive.post_ops.split("+")
    if is_sum(first, only=True):
        name, other = "add", tensor(found, dtype_of(primitive), last=last)
        kernel, tensors = "mkldnn::_convolution_pointwise_.binary", [other, source, *learned]
    elif binary := _binary_of(primitive, found, last=last):
        name, other, rest = binary
        kernel, tensors = "mkldnn::_convolution_pointwise.binary", [source, other, *learned]
    else:
        activation = _activation_of(primitive)
        arguments = [*tensors, *settings, *activation.arguments()]
        return "mkldnn::_convolution_pointwise", arguments
    if rest not in ([], ["eltwise_relu"]):
        raise _no_kernel(primitive)
    if not last:
        raise NotReplayable("torch fuses a second tensor only with channels-last convolutions")
    behind = value("relu") if rest else Argument()
    return kernel, [*tensors, *settings, value(name), Argument(), behind, values([]), Argument()]


def fused_deconvolution(
    primitive: Primitive, tensors: Sequence[Argument], settings: Sequence[Argument]
) -> Task:
    """Return a deconvolution with an activation; raises NotReplayable for other operations.

    settings: padding, output padding, stride, dilation, groups.
    """
    activation = _activation_of(primitive)
    arguments = [*tensors, *settings, *activation.arguments()]
    return "mkldnn::_convolution_transpose_pointwise", arguments


def is_sum(post_op: str, *, only: bool = False) -> bool:
    """Return whether it adds to what the output held; `only`: without a factor."""
    name, *factor = post_op.split(":")
    return name == "sum" and (not factor or (len(factor) == 1 and not only and _are(factor)))


def sum_factor(primitive: Primitive) -> float | None:
    """Return by what a product's output is multiplied before it is added, None if it is not.

    Raises NotReplayable for other operations.
    """
    if not primitive.post_ops:
        return None
    if not is_sum(primitive.post_ops):
        raise _no_kernel(primitive)
    return float(primitive.post_ops.partition(":")[2] or 1)


def _activation_of(primitive: Primitive) -> Activation:
    if not primitive.post_ops:
        return NO_ACTIVATION
    name, *told = primitive.post_ops.split(":")
    if _are(told):
        scalars = tuple(float(text) for text in told)
        if name == "eltwise_relu" and not any(scalars):
            return Activation("relu")
        if name == "eltwise_relu" and len(scalars) == 1:
            return Activation("leaky_relu", scalars=scalars)
        if name == "eltwise_clip" and len(scalars) == 2:
            return Activation("hardtanh", scalars=scalars)
        if name in _PLAIN:
            known, algorithm, settings = _PLAIN[name]
            if list(told) in ([], list(settings)):
                return Activation(known, algorithm)
    raise _no_kernel(primitive)


def _binary_of(
    primitive: Primitive, found: Sequence[int], *, last: bool = False
) -> tuple[str, Argument, list[str]] | None:
    """Return the name and second tensor of a binary operation, and what comes behind it.

    Bits of its mask tell in which sizes the tensor is as large as the output.
    """
    first, *rest = primitive.post_ops.split("+")
    name, *told = first.split(":")
    if name not in _BINARY:
        return None
    if len(told) not in (2, 3) or told[0] not in DTYPES or not re.fullmatch("[0-9]{1,3}", told[1]):
        raise _no_kernel(primitive)
    mask = int(told[1])
    dims = [size if mask >> axis & 1 else 1 for axis, size in enumerate(found)]
    return _BINARY[name], tensor(dims, told[0], last=last), rest


def _are(texts: Sequence[str]) -> bool:
    """Return whether all are finite numbers."""
    return all(_NUMBER.fullmatch(text) and math.isfinite(float(text)) for text in texts)


def _no_kernel(primitive: Primitive) -> NotReplayable:
    return NotReplayable(f"no kernel of torch has its post-operations {primitive.post_ops}")
