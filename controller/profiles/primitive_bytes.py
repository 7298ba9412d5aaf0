"""The bytes that a primitive moves: those of its tensors, of which a log leaves some out. Pure.

Which tensors a line tells, and which shapes a problem has: src/common/verbose.cpp of oneDNN.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from math import prod

from controller.profiles.primitive import (
    ELEMENT_BYTES,
    Memory,
    Primitive,
    broadcast,
    shapes_in,
)

_INPUTS = ("src", "data", "wei")
"""Roles of the inputs: a problem of several shapes gives theirs, in the order of the memory."""
_SMALL = ("stats", "scale", "shift")
"""Roles of a layer normalization's tensors that are far smaller than its source: not counted."""
_SUM = re.compile(r"sum(?::[^:]*){0,2}(?::(?P<dtype>[a-z]\w*))?")
_SECOND = re.compile(r"(?:binary_\w+:(?P<dtype>\w+)|prelu):(?P<mask>\d{1,6})")
"""A post-operation with a tensor of its own, of the output's sizes in the mask; prelu's is fp32."""

Shape = Sequence[int]


def moved_bytes(primitive: Primitive) -> float | None:
    """Return the bytes of a primitive's tensors, each counted once; None if unknown."""
    if primitive.has_untold_sizes:
        return None
    known = [
        (memory, shape)
        for memory, shape in zip(primitive.memory, _shapes(primitive), strict=True)
        if shape is not None
    ]
    if not known:
        return None
    logged = sum(_elements(shape, m.strides) * ELEMENT_BYTES[m.dtype] for m, shape in known)
    by_role = {memory.role: (memory, shape) for memory, shape in known}
    output, shape = by_role.get("dst") or by_role.get("data") or (None, ())
    if output is None:
        return float(logged)
    # Kinds with `data` don't log an output forward, and backward not the output's gradient.
    unlogged = 0.0 if "dst" in by_role else prod(shape) * ELEMENT_BYTES[output.dtype]
    fused = re.split("[+;]", primitive.post_ops)
    return float(logged + unlogged + sum(_fused_bytes(one, output, shape) for one in fused))


def _elements(shape: Shape, strides: str) -> int:
    """Return the elements that a tensor holds: sizes of a stride of 0 repeat the same ones."""
    steps = strides.split("x")
    if len(steps) != len(shape):  # dense, or of a damaged line
        return prod(shape)
    return prod(size for size, step in zip(shape, steps, strict=True) if step != "0")


def _fused_bytes(post_op: str, output: Memory, shape: Shape) -> float:
    """Return the bytes that a post-operation reads: of `sum`, what the output held before."""
    if found := _SUM.fullmatch(post_op):
        return prod(shape) * ELEMENT_BYTES.get(found["dtype"] or output.dtype, 0)
    if found := _SECOND.match(post_op):
        sizes = _masked(shape, int(found["mask"]))
        return prod(sizes) * ELEMENT_BYTES.get(found["dtype"] or "f32", 0)
    return 0.0


def _masked(shape: Shape, mask: int) -> list[int]:
    """Return the sizes of a tensor that is broadcast along those that are not in the mask."""
    return [size for axis, size in enumerate(shape) if mask >> axis & 1]


def _shapes(primitive: Primitive) -> Sequence[Shape | None]:
    """Return the shape of each tensor of a primitive; None if unknown, or not counted."""
    if by_role := dict(primitive.shapes()):
        if mask := next((m.mask for m in primitive.memory if m.role == "bia"), ""):
            by_role["bia"] = _masked(by_role["dst"], int(mask))
        return [by_role.get(m.role) for m in primitive.memory]
    shapes = shapes_in(primitive.problem)
    if not shapes:
        return [None] * len(primitive.memory)
    first, *others = shapes
    if not others:
        return [first if _is_whole(m.role) else None for m in primitive.memory]
    inputs = iter(shapes)
    given = {"dst": _output(primitive.kind, shapes), "diff": first, "diff_wei": others[0]}
    roles = [m.role for m in primitive.memory]
    return [next(inputs, None) if role in _INPUTS else given.get(role) for role in roles]


def _output(kind: str, shapes: Sequence[Shape]) -> Shape:
    """Return a destination's shape; reductions print it behind the source's.

    Of concat as one dimension, since its axis is in none of the shapes.
    """
    if kind == "concat":
        return [sum(map(prod, shapes))]
    return shapes[-1] if kind == "reduction" else broadcast(shapes)


def _is_whole(role: str) -> bool:
    """Return whether a tensor has the source's shape, if that is all that a problem gives."""
    return role.removeprefix("diff_") not in _SMALL
