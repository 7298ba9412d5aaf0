"""A oneDNN primitive, parsed from the body of a verbose line."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import zip_longest
from math import prod

ELEMENT_BYTES: Mapping[str, float] = {
    "f64": 8,
    "s64": 8,
    "f32": 4,
    "s32": 4,
    "f16": 2,
    "bf16": 2,
    "s8": 1,
    "u8": 1,
    "f8_e5m2": 1,
    "f8_e4m3": 1,
    "e8m0": 1,
    "boolean": 1,
    "s4": 0.5,
    "u4": 0.5,
    "f4_e2m1": 0.5,
    "f4_e3m0": 0.5,
    "s2": 0.25,
    "u2": 0.25,
    "undef": 0,
}
"""oneDNN's data types and the bytes of an element."""
_MEMORY = re.compile(
    r"(?P<role>\w+?)[_:](?P<dtype>" + "|".join(ELEMENT_BYTES) + r"):(?P<properties>[^:]*)"
    r":(?P<kind>[^:]*):(?P<tag>[^:]*)(?::(?P<strides>[\dx*]*))?"
    r"(?::?f\d+(?P<flags>(?::(?:s8m|zpm|sa)[\d.]{1,20})*))?"
)
_MASK = re.compile(r"_mask(\d{1,4})$")
_PARAMETER = re.compile(r"(?<![a-z])([a-z]{1,8})(-?[0-9]{1,15})(?![0-9])")
_SHAPE = re.compile(r"[0-9]{1,15}(x[0-9]{1,15})*")
_MOST_DIMENSIONS = 12
"""Of oneDNN's tensors; a damaged line may have more."""
_POST_OPS = re.compile(r"attr-post-ops:(\S+)|post_ops:'([^']*)'")
_DIRECTIONS = {
    "forward_training": "FWD_D",
    "forward": "FWD_D",
    "forward_inference": "FWD_I",
    "backward_data": "BWD_D",
    "backward_weights": "BWD_W",
    "backward": "BWD_DW",
    "undef": "",
}
"""Propagation kind → benchdnn's short name."""
SPATIAL = ("d", "h", "w")
_SIDES = frozenset(("src", "dst"))
"""Of a reorder, which a damaged line may lack."""


@dataclass(frozen=True, slots=True)
class Memory:
    """One tensor of a primitive."""

    role: str
    """src, wei, bia, dst …"""
    dtype: str
    tag: str
    """Its layout, such as `acdb` or `aBcd16b`; may be empty."""
    strides: str
    """Strides that differ from those of the tag."""
    chosen: bool
    """Whether oneDNN chose the layout, so that it may differ from the framework tensor's."""
    mask: str = ""
    """Bits of the output's sizes that a matmul's bias has; empty if nothing tells."""
    is_sparse: bool = False
    """Whether it holds only some of its elements; a log doesn't tell how many."""
    flags: str = ""
    """What int8 kernels have it hold besides, by oneDNN's names: `s8m2`, `zpm1` …"""


@dataclass(frozen=True, slots=True)
class Primitive:
    """A primitive of one shape; equal bodies mean equal primitives."""

    engine: str
    kind: str
    """convolution, matmul, reorder …: a driver in benchdnn."""
    implementation: str
    propagation: str
    memory: tuple[Memory, ...]
    attributes: str
    algorithm: str
    problem: str
    """The problem in benchdnn's notation."""

    @property
    def direction(self) -> str:
        """Return benchdnn's short name of the propagation kind, or an empty text."""
        return _DIRECTIONS.get(self.propagation, self.propagation)

    @property
    def post_ops(self) -> str:
        """Return the operations fused behind it in oneDNN's notation, or an empty text."""
        found = _POST_OPS.search(self.attributes)
        return (found[1] or found[2] or "").strip(";") if found else ""

    @property
    def parameters(self) -> dict[str, int]:
        """Return the sizes of the problem by oneDNN's names: mb, g, ic, oc, ih, kh, sh, ph …"""
        if self.kind == "matmul":
            return _matmul(self.problem)
        if "x" in self.problem:
            return {}
        return {name: int(value) for name, value in _PARAMETER.findall(self.problem)}

    @property
    def odd_bias(self) -> str:
        """Return the mask of a matmul's bias that is not one for each column; else empty.

        oneDNN leaves out sizes of one.
        """
        columns = str(1 << self.problem.partition(":")[0].count("x"))
        usual = ("", columns, "0" if self.parameters.get("n") == 1 else columns)
        return next((m.mask for m in self.memory if m.mask not in usual), "")

    @property
    def dtypes(self) -> str:
        """Return the distinct data types of source, weights and destination."""
        found = [m.dtype for m in self.memory if m.role != "bia" and m.dtype != "undef"]
        return ":".join(dict.fromkeys(found))

    @property
    def dtype(self) -> str:
        """Return the data type of its computation: that of the first tensor with a type."""
        return next((m.dtype for m in self.memory if m.dtype != "undef"), "undef")

    @property
    def layout(self) -> str:
        """Return the layouts by tensor: `src:acdb wei:AcdB16b dst:acdb`."""
        return " ".join(f"{m.role}:{m.tag}" for m in self.memory if m.tag)

    def flops(self) -> float | None:
        """Return the FLOPs of one execution, a multiply-add counting as two.

        None for kinds of primitives that FLOPs don't bound, and where sizes are not told.
        """
        if self.has_untold_sizes:
            return None
        p = self.parameters
        if self.kind == "matmul":
            return 2.0 * p["b"] * p["m"] * p["n"] * p["k"] if p else None
        if self.kind not in ("convolution", "deconvolution", "inner_product") or not p:
            return None
        groups, mb, ic, oc = p.get("g", 1), p.get("mb", 1), p.get("ic", 1), p.get("oc", 1)
        if groups < 1:
            return None  # a damaged line
        if self.kind == "inner_product":
            return 2.0 * mb * ic * oc * _product(p, "i")
        pixels = _product(p, "o" if self.kind == "convolution" else "i")
        return 2.0 * mb * ic * oc / groups * pixels * _product(p, "k")

    @property
    def has_untold_sizes(self) -> bool:
        """Whether a depthwise convolution is fused behind it, or a tensor is sparse."""
        fused = re.split("[+;]", self.post_ops)
        is_second = any(one.startswith(("dw:", "dw_")) for one in fused)
        return is_second or any(m.is_sparse for m in self.memory)

    def elements(self) -> Mapping[str, int]:
        """Return the number of elements of each tensor by role, as `shapes` has it."""
        return {role: prod(shape) for role, shape in self.shapes().items()}

    def shapes(self) -> Mapping[str, Sequence[int]]:
        """Return the shape of each tensor by role, as it follows from the problem.

        Empty where the problem is shapes, except for matmul: both inputs of `binary` are `src`.
        """
        p = self.parameters
        if self.kind == "matmul" and p:
            source, weights = sides_of(self.problem)
            batch = broadcast([source[:-2], weights[:-2]])
            return {"src": source, "wei": weights, "dst": [*batch, p["m"], p["n"]]}
        mb, ic = p.get("mb", 1), p.get("ic", 1)
        oc = p.get("oc", ic)
        src, output = [mb, ic, *_along(p, "i")], [mb, oc, *_along(p, "o")]
        if self.kind in ("convolution", "deconvolution"):
            groups = max(1, p.get("g", 1))
            each = [oc // groups, ic // groups, *_along(p, "k")]
            weights = [groups, *each] if "g" in p else each
            return {"src": src, "wei": weights, "bia": [oc], "dst": output}
        if self.kind == "inner_product":
            return {"src": src, "wei": [oc, *src[1:]], "bia": [oc], "dst": [mb, oc]}
        if "mb" not in p:
            return {}
        dst = output if "ow" in p else [mb, oc, *src[2:]]
        return {"dst": dst, **dict.fromkeys(("src", "data", "diff", "diff_src"), src)}


def primitive_of(body: str) -> Primitive | None:
    """Parse a body; return None if it is not one."""
    fields = body.split(",")
    if len(fields) == 7:  # early releases have no attributes
        fields.insert(5, "")
    if len(fields) != 8 or not fields[0].startswith(("cpu", "gpu")) or not fields[1]:
        return None
    engine, kind, implementation, propagation, memory, attributes, auxiliary, problem = fields
    found = [_memory(token) for token in memory.split()]
    if not problem or not found or None in found:
        return None
    if kind == "reorder" and not {m.role for m in found if m} >= _SIDES:
        return None
    if any(sizes.count("x") >= _MOST_DIMENSIONS for sizes in problem.split(":")):
        return None
    return Primitive(
        engine=engine,
        kind=kind,
        implementation=implementation,
        propagation=propagation,
        memory=tuple(filter(None, found)),
        attributes=attributes.strip(),
        algorithm=_algorithm(auxiliary),
        problem=problem.strip(),
    )


def _memory(token: str) -> Memory | None:
    """Return a tensor in a body; None if it is not one."""
    found = _MEMORY.match(token)
    if found is None:
        return None
    mask = _MASK.search(token)
    return Memory(
        role=found["role"],
        dtype=found["dtype"],
        tag=found["tag"],
        strides=found["strides"] or "",
        chosen="a" in found["properties"],
        mask=mask[1] if mask else "",
        is_sparse=found["kind"] == "sparse",
        flags=(found["flags"] or "").strip(":"),
    )


def _algorithm(auxiliary: str) -> str:
    """Return the algorithm; `num:1` in early releases is the number of inputs instead."""
    return auxiliary.removeprefix("alg:") if auxiliary.startswith("alg:") else auxiliary


def _matmul(problem: str) -> dict[str, int]:
    """Return the output's batch, m, n and k of a matmul; nothing if a size is open."""
    sides = sides_of(problem)
    if not sides:
        return {}
    source, weights = sides
    batch = prod(broadcast([source[:-2], weights[:-2]]))
    return {"b": batch, "m": source[-2], "k": source[-1], "n": weights[-1]}


def sides_of(problem: str) -> Sequence[Sequence[int]]:
    """Return the shapes of source and weights of `[B×]MxK:[B×]KxN[:…]`; none if a size is open."""
    sides = shapes_in(":".join(problem.split(":")[:2]))
    return sides if len(sides) == 2 and all(len(side) > 1 for side in sides) else []


def shapes_in(problem: str) -> Sequence[Sequence[int]]:
    """Return the shapes of `AxB[:AxB…]`; none if a size is open, or of problems by letters."""
    parts = problem.split(":")
    if not all(_SHAPE.fullmatch(part) for part in parts):
        return []
    return [[int(size) for size in part.split("x")] for part in parts]


def broadcast(shapes: Sequence[Sequence[int]]) -> list[int]:
    """Return the shape of what shapes are broadcast to: the larger of each pair of sizes."""
    return [*map(max, zip_longest(*(shape[::-1] for shape in shapes), fillvalue=1))][::-1]


def _along(parameters: Mapping[str, int], prefix: str) -> list[int]:
    """Return a size along each spatial dimension that the problem has."""
    return [parameters[prefix + axis] for axis in SPATIAL if prefix + axis in parameters]


def _product(parameters: Mapping[str, int], prefix: str) -> int:
    """Return the product of a size over the spatial dimensions; 1 if there are none."""
    return prod(_along(parameters, prefix))
