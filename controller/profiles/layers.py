"""Layers rebuilt from oneDNN's description, for kernels whose inputs a trace doesn't record. Pure.

Kernels of packages other than torch (IPEX's convolutions) record no inputs. oneDNN's description of
their primitives (sizes, strides, padding, types, layouts, directions) is enough to build the layer
again.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Literal, cast

from controller.contracts.replay import LayerReplay
from controller.profiles.model import PrimitiveRow
from controller.profiles.primitive import Memory, primitive_of

KINDS = ("convolution", "inner_product")


@dataclass(frozen=True, slots=True)
class _Layer:
    """The properties that a layer's forward and both backward primitives share."""

    module: str
    kind: str
    problem: str
    dtype: str
    """Data type of the input, or of its gradient."""


def layers_of(rows: Iterable[PrimitiveRow]) -> list[LayerReplay]:
    """Return the distinct layers of the primitives in kernels without recorded inputs."""
    found: dict[_Layer, list[PrimitiveRow]] = {}
    for row in rows:
        if row.primitive in KINDS and row.place.kernel and not row.place.dims:
            layer = _Layer(row.place.module, row.primitive, row.problem, row.dtype)
            found.setdefault(layer, []).append(row)
    layers = [_rebuilt(layer, of) for layer, of in found.items()]
    return list({layer.key: layer for layer in layers}.values())


def _rebuilt(layer: _Layer, rows: Sequence[PrimitiveRow]) -> LayerReplay:
    memory = [one for row in rows for one in _memory(row)]
    directions = {row.direction for row in rows}
    given: dict[str, bool] = {
        "channels_last": any(one.role == "src" and _is_channels_last(one) for one in memory),
        "bias": any(one.role == "bia" and one.dtype != "undef" for one in memory),
        "learns": "BWD_W" in directions,
        "passes_back": "BWD_D" in directions,
    }
    said = (
        layer.kind,
        layer.problem,
        layer.dtype,
        *(name for name, is_so in given.items() if is_so),
    )
    return LayerReplay(
        key="|".join(said),
        kind=cast("Literal['convolution', 'inner_product']", layer.kind),
        parameters=rows[0].parameters,
        dtype=layer.dtype,
        **given,
    )


def _memory(row: PrimitiveRow) -> Sequence[Memory]:
    primitive = primitive_of(row.body)
    return primitive.memory if primitive else ()


def _is_channels_last(memory: Memory) -> bool:
    """Return whether the framework's tensor is channels-last: oneDNN's acdb is, abcd isn't."""
    return not memory.chosen and memory.tag.startswith("ac") and memory.tag.endswith("b")
