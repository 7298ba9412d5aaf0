"""Primitives that torch runs by oneDNN on tensors given to it (`to_mkldnn`), and LSTM layers. Pure.

Such tensors follow the order of their sizes. Those of a few other layouts come out of a convolution
of such a tensor, whose layout oneDNN chooses; whether it is the log's shows only when it is run. A
primitive of yet another layout is not replayed.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from math import prod
from typing import Final

from controller.contracts.replay import KernelReplay
from controller.profiles.primitive import SPATIAL, Primitive
from controller.profiles.replay_arguments import (
    NO_TYPE,
    Argument,
    NotReplayable,
    dtype_of,
    opaque,
    replay_of,
    require_limits,
    tensor,
    trains,
    value,
    values,
)

MOST_DIMENSIONS: Final = 5
"""Of tensors that torch gives to oneDNN."""
_AXES: Final = "abcde"
_CHOSEN: Final[Mapping[str, int]] = {"aBcd8b": 4, "aBcd16b": 4, "acdeb": 5}
"""Layouts that oneDNN chooses for a convolution of each channel by itself → dimensions."""
_NUMBER: Final = re.compile(r"-?[0-9]{1,9}(\.[0-9]{1,9})?(e[-+]?[0-9]{1,2})?")
_SIZES: Final = re.compile(r"[0-9]{1,12}(x[0-9]{1,12})*")
_ELTWISE: Final[Mapping[str, str]] = {
    "eltwise_relu": "aten::relu",
    "eltwise_gelu_erf": "aten::gelu",
    "eltwise_tanh": "aten::tanh",
    "eltwise_logistic": "aten::sigmoid",
}
_LSTM: Final = 2
"""torch's number of the mode."""
_DIRECTIONS: Final = {
    "direction:unidirectional_left2right": False,
    "direction:unidirectional_right2left": True,
}


def _eltwise(primitive: Primitive) -> KernelReplay:
    name, *settings = primitive.algorithm.split() or [""]
    leaky = name == "eltwise_relu" and any(
        text.startswith("alpha:") and text != "alpha:0" for text in settings
    )
    (dims,) = _dimensions(primitive, 1)
    if name == "eltwise_linear":
        return _scaling(primitive, dims, settings)
    if name not in _ELTWISE or leaky:
        raise _none_of(primitive)
    return _replay(primitive, _ELTWISE[name], [_tensor(primitive, dims)])


def _scaling(primitive: Primitive, dims: Sequence[int], settings: Sequence[str]) -> KernelReplay:
    """Return the product with a number, which torch always has oneDNN infer."""
    factor = settings[0].removeprefix("alpha:") if settings else ""
    known = bool(_NUMBER.fullmatch(factor)) and list(settings[1:]) in ([], ["beta:0"])
    if primitive.direction != "FWD_I" or not known:
        raise _none_of(primitive)
    return _replay(primitive, "aten::mul.Scalar", [_tensor(primitive, dims), value(float(factor))])


def _prelu(primitive: Primitive) -> KernelReplay:
    dims, slopes = _dimensions(primitive, 2)
    if min(len(dims), len(slopes)) < 2 or slopes != [1, slopes[1], *[1] * (len(dims) - 2)]:
        raise NotReplayable("torch has one slope, or one for each channel")
    slope = tensor([slopes[1]], dtype_of(primitive))
    return _replay(primitive, "aten::prelu", [_tensor(primitive, dims), slope])


def _layer_normalization(primitive: Primitive) -> KernelReplay:
    """Return what frozen TorchScript runs: no other kernel normalizes layers by oneDNN."""
    dtype = dtype_of(primitive)
    if primitive.direction != "FWD_D" or dtype != "f32":
        raise NotReplayable("torch normalizes layers by oneDNN in f32, forward, alone")
    if primitive.algorithm != "flags:CH":
        raise NotReplayable("torch normalizes layers by oneDNN with a scale and a shift alone")
    (dims,) = _dimensions(primitive, 1)
    each = opaque(dims[-1:], dtype)
    settings = [value(1e-5), value(scalar=False)]
    arguments = [_tensor(primitive, dims), values(dims[-1:]), each, each, *settings]
    return _replay(primitive, "prim::MKLDNNLayerNorm", arguments)


def _binary(primitive: Primitive) -> KernelReplay:
    kernels = {"binary_mul": "aten::mul.Tensor", "binary_add": "aten::add.Tensor"}
    if primitive.algorithm not in kernels:
        raise _none_of(primitive)
    sides = _dimensions(primitive, 2)
    if len(sides[0]) != len(sides[1]):
        raise NotReplayable("its sizes are not known")
    require_limits(4.0 * prod(map(max, *sides)))  # of a product of row and column
    sources = [_tensor(primitive, dims) for dims in sides]
    return _replay(primitive, kernels[primitive.algorithm], sources)


def _sum(primitive: Primitive) -> KernelReplay:
    if sum(m.role.startswith("src") for m in primitive.memory) != 2:
        raise NotReplayable("torch adds two tensors by oneDNN, no more")
    (dims,) = _dimensions(primitive, 1)
    return _replay(primitive, "aten::add.Tensor", [_tensor(primitive, dims)] * 2)


def _softmax(primitive: Primitive) -> KernelReplay:
    name, *settings = primitive.algorithm.split() or [""]
    axes = [text.removeprefix("axis:") for text in settings if text.startswith("axis:")]
    (dims,) = _dimensions(primitive, 1)
    known = [str(axis) for axis in range(len(dims))]
    if name not in ("softmax_accurate", "") or len(axes) != 1 or axes[0] not in known:
        raise _none_of(primitive)
    return _replay(
        primitive,
        "aten::_softmax",
        [_tensor(primitive, dims), value(int(axes[0])), value(scalar=False)],
    )


def _batch_normalization(primitive: Primitive) -> KernelReplay:
    p, flags = primitive.parameters, primitive.algorithm.removeprefix("flags:")
    axes = [axis for axis in SPATIAL if f"i{axis}" in p]
    source = _tensor(primitive, [p["mb"], p["ic"], *(p[f"i{axis}"] for axis in axes)])
    if "R" in flags or "A" in flags:
        raise NotReplayable("torch fuses nothing with its batch normalization")
    each = tensor([p["ic"]], "f32")
    known = "G" in flags
    running = [each if known else Argument()] * 2
    settings = [value(not known), value(0.1), value(1e-5)]
    return _replay(primitive, "aten::native_batch_norm", [source, each, each, *running, *settings])


def _pooling(primitive: Primitive) -> KernelReplay:
    p, name = primitive.parameters, primitive.algorithm
    axes = [axis for axis in SPATIAL if f"k{axis}" in p]
    if len(axes) < 2 or any(p.get(f"d{axis}", 0) for axis in axes):
        raise NotReplayable("torch pools images and volumes without dilation by oneDNN, no other")
    source = _tensor(primitive, [p["mb"], p["ic"], *(p[f"i{axis}"] for axis in axes)])
    kernel, stride, padding = (
        [p[f"{prefix}{axis}"] for axis in axes] for prefix in ("k", "s", "p")
    )
    up = _rounds_up(p, axes)
    require_limits(0.0, prod([p["mb"], p["ic"], *(p[f"o{a}"] * p[f"k{a}"] for a in axes)]))
    window = [values(kernel), values(stride), values(padding)]
    if name == "pooling_max":
        kernel_name, rest = "aten::mkldnn_max_pool", [values([1] * len(axes)), value(up)]
    elif name in ("pooling_avg_include_padding", "pooling_avg_exclude_padding"):
        kernel_name, rest = "aten::avg_pool", [value(up), value("include" in name)]
    else:
        raise _none_of(primitive)
    # Only with gradients does torch tell oneDNN that it trains.
    trains = primitive.direction != "FWD_I"
    return replay_of(f"{kernel_name}{len(axes)}d", [source, *window, *rest], gradients=trains)


def _rounds_up(p: Mapping[str, int], axes: Sequence[str]) -> bool:
    """Return whether a pooling's output is rounded up; raises NotReplayable if it is neither."""
    if any(p[f"s{a}"] < 1 or not 0 <= 2 * p[f"p{a}"] <= p[f"k{a}"] for a in axes):
        raise NotReplayable("its window is not known")
    reach = [p[f"i{a}"] + 2 * p[f"p{a}"] - p[f"k{a}"] for a in axes]
    found = [p[f"o{a}"] - 1 for a in axes]
    stride = [p[f"s{a}"] for a in axes]
    if found == [r // s for r, s in zip(reach, stride, strict=True)]:
        return False
    if found == [-(-r // s) for r, s in zip(reach, stride, strict=True)]:
        return True
    raise NotReplayable("its padding is not the same at both ends")


def _rnn(primitive: Primitive) -> KernelReplay:
    p, told = primitive.parameters, primitive.algorithm.split()
    ways = [_DIRECTIONS[text] for text in told if text in _DIRECTIONS]
    if told[:1] != ["vanilla_lstm"] or p["l"] != 1 or len(ways) != 1:
        raise NotReplayable("torch runs single layers of LSTMs in one direction by oneDNN")
    steps, batch, width, hidden = p["t"], p["mb"], p["slc"], p["dhc"]
    if p["sic"] != hidden:
        raise NotReplayable("torch runs no LSTM with projections by oneDNN")
    dtype, gates = dtype_of(primitive), 4 * hidden
    # A step's gates are kept for the gradients.
    size = 4.0 * (steps * batch * (width + 8 * hidden) + gates * (width + hidden))
    require_limits(size, 2.0 * steps * batch * gates * (width + hidden))
    sizes = (
        [steps, batch, width],
        [gates, width],
        [gates, hidden],
        [gates],
        [gates],
        [batch, hidden],
        [batch, hidden],
    )
    settings = [
        value(ways[0]),
        values([]),
        value(_LSTM),
        value(hidden),
        value(1),
        value(scalar=True),  # has_biases
        value(scalar=False),  # bidirectional
        value(scalar=False),  # batch_first
        value(primitive.direction != "FWD_I"),  # train
    ]
    tensors = [tensor(dims, dtype) for dims in sizes]
    return _replay(primitive, "aten::mkldnn_rnn_layer", [*tensors, *settings], size)


def _replay(
    primitive: Primitive, kernel: str, arguments: Sequence[Argument], size: float = 0.0
) -> KernelReplay:
    back = primitive.direction.startswith("BWD")
    forward = trains(primitive.direction)
    return replay_of(kernel, arguments, gradients=back, trains=forward, size=size)


def _tensor(primitive: Primitive, dims: Sequence[int]) -> Argument:
    """Return a source; raises NotReplayable for layouts and types that torch does not give."""
    if len(dims) > MOST_DIMENSIONS:
        raise NotReplayable(f"torch gives oneDNN tensors of {MOST_DIMENSIONS} dimensions at most")
    tags = {m.tag for m in primitive.memory if m.dtype != NO_TYPE and _is_whole(m.tag, dims)}
    if tags <= {_AXES[: len(dims)]}:
        return opaque(dims, dtype_of(primitive))
    if len(tags) > 1 or any(_CHOSEN.get(tag) != len(dims) for tag in tags):
        told = " and ".join(sorted(tags))
        raise NotReplayable(f"torch gives oneDNN no tensors of layout {told}")
    return opaque(dims, dtype_of(primitive), chosen=True)


def _is_whole(tag: str, dims: Sequence[int]) -> bool:
    """Return whether a layout is that of a tensor of such sizes, and not of scales or statistics.

    Blocked ones are taken for such.
    """
    return len(tag) == len(dims) or any(char.isdigit() for char in tag)


def _dimensions(primitive: Primitive, count: int) -> list[list[int]]:
    """Return the sizes of `AxB[:AxB]`; raises NotReplayable if they are not as many tensors'."""
    parts = primitive.problem.split(":")
    if len(parts) != count or not all(_SIZES.fullmatch(part) for part in parts):
        raise NotReplayable("its sizes are not known")
    return [[int(number) for number in part.split("x")] for part in parts]


def _none_of(primitive: Primitive) -> NotReplayable:
    return NotReplayable(f"torch runs no {primitive.algorithm or primitive.kind} by oneDNN")


OPAQUE_MAKERS: Final[Mapping[str, Callable[[Primitive], KernelReplay]]] = {
    "batch_normalization": _batch_normalization,
    "binary": _binary,
    "eltwise": _eltwise,
    "layer_normalization": _layer_normalization,
    "pooling": _pooling,
    "pooling_v2": _pooling,
    "prelu": _prelu,
    "rnn": _rnn,
    "softmax": _softmax,
    "softmax_v2": _softmax,
    "sum": _sum,
}
"""Kind of primitive → its task; the functions raise NotReplayable, and KeyError for a size."""
