"""Layers rebuilt from oneDNN's description, for kernels whose inputs a trace doesn't record. Pure.

Kernels of packages other than torch (IPEX's convolutions) record no inputs. oneDNN's description of
their primitives (sizes, strides, padding, types, layouts, directions) is enough to build the layer
again.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from math import prod
from typing import Literal, cast

from controller.contracts.replay import LayerReplay
from controller.profiles.model import PrimitiveRow
from controller.profiles.primitive import Memory, primitive_of

KINDS = ("convolution", "inner_product")
INPUT = ("mb", "id", "ih", "iw")
OUTPUT = ("od", "oh", "ow")
"""Sizes that may differ between calls of a layer: of its input, and of its output."""


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
    largest = _largest_inputs(found)
    layers = [_rebuilt(layer, of, largest[_weights(layer, of[0])]) for layer, of in found.items()]
    return list({layer.key: layer for layer in layers}.values())


def _weights(layer: _Layer, row: PrimitiveRow) -> tuple[object, ...]:
    """Return what the calls of one layer share: its module, kind, and all sizes but of images."""
    sizes = tuple(one for one in row.parameters.items() if one[0] not in (*INPUT, *OUTPUT))
    return layer.module, layer.kind, sizes


def _largest_inputs(
    found: Mapping[_Layer, Sequence[PrimitiveRow]],
) -> Mapping[tuple[object, ...], Mapping[str, int]]:
    """Return the sizes of the largest input of each layer."""
    inputs: dict[tuple[object, ...], list[Mapping[str, int]]] = {}
    for layer, (row, *_) in found.items():
        sizes = {name: row.parameters[name] for name in INPUT if name in row.parameters}
        inputs.setdefault(_weights(layer, row), []).append(sizes)
    return {of: max(each, key=lambda sizes: prod(sizes.values())) for of, each in inputs.items()}


def _rebuilt(
    layer: _Layer, rows: Sequence[PrimitiveRow], largest: Mapping[str, int]
) -> LayerReplay:
    memory = [one for row in rows for one in _memory(row)]
    directions = {row.direction for row in rows}
    given: dict[str, bool] = {
        "channels_last": any(one.role == "src" and _is_channels_last(one) for one in memory),
        "bias": any(one.role == "bia" and one.dtype != "undef" for one in memory),
        "learns": "BWD_W" in directions,
        "passes_back": "BWD_D" in directions,
    }
    is_largest = all(rows[0].parameters.get(name) == size for name, size in largest.items())
    beside = {} if is_largest else dict(largest)
    said = (
        layer.kind,
        layer.problem,
        layer.dtype,
        *(name for name, is_so in given.items() if is_so),
        *(f"{name}{size}" for name, size in beside.items()),
    )
    return LayerReplay(
        key="|".join(said),
        kind=cast("Literal['convolution', 'inner_product']", layer.kind),
        parameters=rows[0].parameters,
        dtype=layer.dtype,
        largest=beside,
        **given,
    )


def _memory(row: PrimitiveRow) -> Sequence[Memory]:
    primitive = primitive_of(row.body)
    return primitive.memory if primitive else ()


def _is_channels_last(memory: Memory) -> bool:
    """Return whether the framework's tensor is channels-last: oneDNN's acdb is, abcd isn't."""
    return not memory.chosen and memory.tag.startswith("ac") and memory.tag.endswith("b")
