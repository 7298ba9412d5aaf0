"""Kernels of torch that run inner products and matrix products of a log. Pure."""

from __future__ import annotations

import re
from collections.abc import Sequence
from math import prod
from typing import Final

from controller.profiles.fused_replays import Task, fused_linear, sum_factor
from controller.profiles.primitive import SPATIAL, Primitive, sides_of
from controller.profiles.replay_arguments import (
    Argument,
    NotReplayable,
    dtype_of,
    has_bias,
    tensor,
    value,
)

_AXES: Final = "abcdefghijkl"
_STRIDES: Final = re.compile(r"[0-9]{1,15}(x[0-9]{1,15})*")
SCALED: Final = "attr-scales:src0:0:f32"
"""What oneDNN writes of a product that torch multiplies by a number, `alpha`, which is not told."""
ALPHA: Final = 0.5
"""Stands for any such number."""


def inner_product(primitive: Primitive) -> Task:
    """Return the kernel of an inner product or its gradients; raises NotReplayable."""
    p, dtype = primitive.parameters, dtype_of(primitive)
    width = p["ic"] * prod(p.get(f"i{axis}", 1) for axis in SPATIAL)
    source, kernel, found = [p["mb"], width], [p["oc"], width], [p["mb"], p["oc"]]
    if primitive.direction.startswith("BWD") and primitive.post_ops:
        raise NotReplayable(f"no kernel of torch has its post-operations {primitive.post_ops}")
    if primitive.direction == "BWD_D":
        return "aten::mm", [tensor(found, dtype), tensor(kernel, dtype)]
    if primitive.direction == "BWD_W":
        return "aten::mm", [tensor(found[::-1], dtype, (1, p["oc"])), tensor(source, dtype)]
    bias = tensor([p["oc"]], dtype) if has_bias(primitive) else Argument()
    return fused_linear(primitive, [tensor(source, dtype), tensor(kernel, dtype), bias], found)


def matmul(primitive: Primitive) -> Task:
    """Return the kernel of a matrix product; raises NotReplayable.

    What it adds to (`sum`) may be any tensor of the output's size: a layer's bias is the usual one.
    """
    p, dtype = primitive.parameters, dtype_of(primitive)
    batches = [prod(side[:-2]) for side in sides_of(primitive.problem)]
    if min(batches) != max(batches):
        raise NotReplayable("no kernel of torch multiplies batches of different sizes")
    beta, is_scaled = sum_factor(primitive), SCALED in primitive.attributes.split()
    if primitive.odd_bias:
        raise NotReplayable("no kernel of torch adds a bias but one for each column")
    if p["b"] > 1 and has_bias(primitive):
        raise NotReplayable("no kernel of torch adds a bias to batches of products")
    in_batches = primitive.problem.split(":")[0].count("x") > 1 and not has_bias(primitive)
    batch = [p["b"]] if in_batches else []
    sides = [
        tensor([*batch, *dims], dtype, _strides(primitive, role, [*batch, *dims]))
        for role, dims in (("src", (p["m"], p["k"])), ("wei", (p["k"], p["n"])))
    ]
    name = "bmm" if batch else "mm"
    if has_bias(primitive) and beta is None:
        return "aten::addmm", [tensor([p["n"]], dtype), *sides]
    arguments = sides
    if beta is not None or is_scaled:
        name = "baddbmm" if batch else "addmm"
        factors = [value(0.0 if beta is None else beta), value(ALPHA if is_scaled else 1.0)]
        arguments = [tensor([p["n"]], dtype), *sides, *factors]
    found = [*batch, p["m"], p["n"]]
    output, whole = tensor(found, dtype, _strides(primitive, "dst", found)), tensor(found, dtype)
    if list(output.strides) != list(whole.strides):
        return f"aten::{name}.out", [*arguments, output]
    return f"aten::{name}", arguments


def _strides(primitive: Primitive, role: str, dims: Sequence[int]) -> Sequence[int]:
    """Return a side's strides, as told or of its layout's order; none: that of its sizes."""
    if told := _told(primitive, role, dims):
        return told
    tag = next((m.tag for m in primitive.memory if m.role == role), "")
    more = len(tag) - len(dims)  # of a batch's sizes, which are one here
    axes = (
        [_AXES.find(letter) - more for letter in tag[more:]] if _AXES.startswith(tag[:more]) else []
    )
    if sorted(axes) != list(range(len(dims))):
        return ()
    strides, step = [0] * len(dims), 1
    for axis in reversed(axes):
        strides[axis] = step
        step *= dims[axis]
    return strides


def _told(primitive: Primitive, role: str, dims: Sequence[int]) -> Sequence[int]:
    """Return the strides that the log tells beside a layout: those of a part of a tensor.

    Raises NotReplayable for those that are none of such a part, as of a repeated one.
    """
    told = next((m.strides for m in primitive.memory if m.role == role), "")
    if not told:
        return []
    found = [int(part) for part in told.split("x")] if _STRIDES.fullmatch(told) else []
    sizes = 1 + primitive.problem.partition(":")[0].count("x")
    if len(found) != sizes or min(found) < 1:
        raise NotReplayable(f"its strides {told[:40]} are not those of a part of a tensor")
    return found[-len(dims) :]  # a batch's sizes, which are one here, may be told, too
