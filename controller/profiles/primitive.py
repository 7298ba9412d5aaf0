"""A oneDNN primitive, parsed from the body of a verbose line."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

_DTYPES: Mapping[str, float] = {
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
    r"(?P<role>\w+?)[_:](?P<dtype>" + "|".join(_DTYPES) + r"):(?P<properties>[^:]*)"
    r":(?P<kind>[^:]*):(?P<tag>[^:]*)(?::(?P<strides>[\dx*]*))?"
)
_PARAMETER = re.compile(r"([a-z]+)(-?[0-9]{1,15})(?![0-9])")
_SIZE = re.compile(r"[0-9]{1,15}")
_SIZES = re.compile(r"[0-9]{1,15}(x[0-9]{1,15})+")
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

        None for kinds of primitives that FLOPs don't bound.
        """
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

    def bytes(self) -> float | None:
        """Return the bytes of its tensors, each counted once; None if unknown."""
        elements = self.elements()
        found = [elements[m.role] * _DTYPES[m.dtype] for m in self.memory if m.role in elements]
        return float(sum(found)) if found else None

    def elements(self) -> Mapping[str, int]:
        """Return the number of elements of each tensor that follows from the problem."""
        p = self.parameters
        if self.kind == "matmul" and p:
            b, m, n, k = p["b"], p["m"], p["n"], p["k"]
            return {"src": b * m * k, "wei": b * k * n, "dst": b * m * n}
        if "x" in self.problem or self.problem.isdigit():
            return self._elements_of_dimensions()
        mb, ic = p.get("mb", 1), p.get("ic", 1)
        oc = p.get("oc", ic)
        src = mb * ic * _product(p, "i")
        if self.kind in ("convolution", "deconvolution"):
            weights = ic * oc // max(1, p.get("g", 1)) * _product(p, "k")
            return {"src": src, "wei": weights, "bia": oc, "dst": mb * oc * _product(p, "o")}
        if self.kind == "inner_product":
            return {"src": src, "wei": ic * oc * _product(p, "i"), "bia": oc, "dst": mb * oc}
        output = mb * oc * (_product(p, "o") if "ow" in p else _product(p, "i"))
        return {"src": src, "data": src, "dst": output, "diff": src} if "mb" in p else {}

    def _elements_of_dimensions(self) -> Mapping[str, int]:
        each = [_elements(part) for part in self.problem.split(":")]
        sources = [m.role for m in self.memory if m.role.startswith("src")]
        found = {m.role: each[0] for m in self.memory}
        if len(each) > 1:
            found |= dict(zip(sources, each, strict=False))
        return found


def primitive_of(body: str) -> Primitive | None:
    """Parse a body; return None if it is not one."""
    fields = body.split(",")
    if len(fields) == 7:  # early releases have no attributes
        fields.insert(5, "")
    if len(fields) != 8 or not fields[0].startswith(("cpu", "gpu")) or not fields[1]:
        return None
    engine, kind, implementation, propagation, memory, attributes, auxiliary, problem = fields
    found = [_MEMORY.match(token) for token in memory.split()]
    if not problem or not found or None in found:
        return None
    if any(sizes.count("x") >= _MOST_DIMENSIONS for sizes in problem.split(":")):
        return None
    return Primitive(
        engine=engine,
        kind=kind,
        implementation=implementation,
        propagation=propagation,
        memory=tuple(
            Memory(m["role"], m["dtype"], m["tag"], m["strides"] or "", "a" in m["properties"])
            for m in found
            if m
        ),
        attributes=attributes.strip(),
        algorithm=_algorithm(auxiliary),
        problem=problem.strip(),
    )


def _algorithm(auxiliary: str) -> str:
    """Return the algorithm; `num:1` in early releases is the number of inputs instead."""
    return auxiliary.removeprefix("alg:") if auxiliary.startswith("alg:") else auxiliary


def _matmul(problem: str) -> dict[str, int]:
    """Return batch, m, n and k of `[B×]MxK:[B×]KxN[:…]`; nothing if a size is open."""
    sides = problem.split(":")[:2]
    if len(sides) != 2 or not all(_SIZES.fullmatch(side) for side in sides):
        return {}
    source, weights = ([int(n) for n in side.split("x")] for side in sides)
    batch = 1
    for number in source[:-2]:
        batch *= number
    return {"b": batch, "m": source[-2], "k": source[-1], "n": weights[-1]}


def _product(parameters: Mapping[str, int], prefix: str) -> int:
    """Return the product of a size over the spatial dimensions; 1 if there are none."""
    found = 1
    for axis in SPATIAL:
        found *= parameters.get(prefix + axis, 1)
    return found


def _elements(dimensions: str) -> int:
    found = 1
    for number in dimensions.split("x"):
        found *= int(number) if _SIZE.fullmatch(number) else 1
    return found
