"""Profiles by hand, in rows that can be altered: a body of two convolutions, and a head."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import Any

from hypothesis import strategies as st

from controller.contracts.base import Scalar
from controller.contracts.profile import ProfileOrigin, ProfileSummary
from controller.profiles.model import KernelRow, Place, PrimitiveRow, Profile

Rows = list[KernelRow | PrimitiveRow]
BODY, HEAD = ("body.0", "body.1"), "head"


def kernel(op: str, seconds: float, **told: str | float) -> KernelRow:
    """Return a kernel that is its op, called once, in fp32."""
    calls = float(told.pop("calls", 1.0))
    known = {"phase": "forward", "dims": "[[2, 16, 32, 32]]", "dtypes": '["float"]'}
    place = Place(op=op, kernel=op, **{**known, **{name: str(of) for name, of in told.items()}})
    return KernelRow(place=place, calls=calls, self_s=seconds, total_s=seconds)


def primitive(place: Place, kind: str, seconds: float, **told: str | float) -> PrimitiveRow:
    """Return a primitive in a kernel, called once, in fp32."""
    calls = float(told.pop("calls", 1.0))
    known: dict[str, Any] = {
        "engine": "cpu",
        "primitive": kind,
        "implementation": "jit:avx2",
        "direction": "FWD_D",
        "data_types": "f32",
        "dtype": "f32",
        "layout": "src:abcd dst:abcd",
        "attributes": "",
        "post_ops": "",
        "algorithm": "",
        "problem": "mb2_ic16oc16",
    }
    texts = {**known, **told}
    return PrimitiveRow(
        place=place,
        **texts,
        parameters={},
        body=" ".join(map(str, texts.values())),
        calls=calls,
        seconds=seconds,
        least_s=seconds,
        flops=None,
        bytes=None,
    )


def convolution(module: str, seconds: float, phase: str = "forward", **told: str) -> Rows:
    """Return a convolution outside and inside oneDNN: 1 ms is torch's own."""
    row = kernel("aten::conv2d", 0.001 + seconds, phase=phase, module=module)
    row = replace(row, primitive_s=seconds)
    return [row, primitive(row.place, "convolution", seconds, **told)]


def step() -> Rows:
    """Return a step of 0.5 s: two convolutions, each with a reorder, ReLU, head, optimizer."""
    rows: Rows = []
    for module in BODY:
        rows += convolution(module, 0.149)
        rows.append(primitive(rows[-1].place, "reorder", 0.01, direction=""))
    rows.append(kernel("aten::relu", 0.08, module="act"))
    rows.append(kernel("aten::mm", 0.06, module=HEAD))
    rows.append(kernel("aten::add_", 0.04, phase="optimizer", calls=2.0))
    return rows


def up_to(most: float) -> st.SearchStrategy[float]:
    """Return numbers of which products, too, may stand in a profile: see `LEAST` there."""
    return st.just(0.0) | st.floats(1e-40, most)


def profile(
    rows: Iterable[KernelRow | PrimitiveRow],
    step_s: float | None = None,
    knobs: dict[str, Scalar] | None = None,
    threads: int | None = 2,
    load_s: float | None = None,
) -> Profile:
    """Return the profile that has these rows; its step takes what they come to, if not told."""
    rows = list(rows)
    kernels = tuple(row for row in rows if isinstance(row, KernelRow))
    primitives = tuple(row for row in rows if isinstance(row, PrimitiveRow))
    own = sum(row.self_s - row.primitive_s for row in kernels)
    whole = own + sum(row.seconds for row in primitives)
    origin = ProfileOrigin(workload="net", stack="torch", threads=threads, knobs=knobs or {})
    summary = ProfileSummary(
        steps=5, step_s=whole if step_s is None else step_s, origin=origin, load_s=load_s
    )
    return Profile(summary, kernels, primitives)
