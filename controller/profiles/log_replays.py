"""Which kernel of torch runs a primitive of a log, and with which inputs. Pure.

A log tells sizes, types and layouts of a primitive, and not who called it. What torch makes of the
kernel is logged again when it is replayed, so that only equal primitives are compared.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from math import prod
from typing import Final

from controller.contracts.replay import KernelReplay
from controller.profiles.model import PrimitiveRow
from controller.profiles.primitive import SPATIAL, Memory, Primitive, primitive_of

MOST_BYTES: Final = 4 * 2**30
"""Of all tensors of a primitive. A log is not to be trusted with this host's memory."""
MOST_FLOPS: Final = 2e12
"""Of a call: some ten seconds of a server's core. Each is called a dozen times."""
_DTYPES: Final[Mapping[str, tuple[str, int]]] = {
    "f32": ("float", 4),
    "bf16": ("c10::BFloat16", 2),
    "f16": ("c10::Half", 2),
}
"""oneDNN's type → torch's, as traces name it, and its bytes."""
_NONE: Final = "undef"


class NotReplayable(Exception):
    """A primitive that no kernel of torch is known for; its text says why."""


@dataclass(frozen=True, slots=True)
class Planned:
    """What is to be replayed for a log's primitives."""

    tasks: dict[str, KernelReplay]
    """Body → the kernel that runs it."""
    refused: dict[str, str]
    """Body → why there is none."""


@dataclass(frozen=True, slots=True)
class _Argument:
    """An argument of a kernel: a tensor with its sizes, or another value as Python writes it."""

    dims: Sequence[int] = ()
    dtype: str = ""
    strides: Sequence[int] = ()
    value: str = ""


def planned_replays(rows: Iterable[PrimitiveRow]) -> Planned:
    """Return the kernels that run the primitives; those of reorders come with other kernels."""
    tasks: dict[str, KernelReplay] = {}
    refused: dict[str, str] = {}
    for row in rows:
        primitive = primitive_of(row.body)
        try:
            if primitive is None:
                raise NotReplayable("its description is not known")
            tasks[row.body] = _task_of(primitive)
        except NotReplayable as why:
            refused[row.body] = str(why)
    return Planned(tasks, refused)


def likeness(primitive: Primitive) -> tuple[str, ...]:
    """Return what primitives that do the same work have in common, whatever runs them."""
    roles = [f"{m.role}:{m.dtype}:{m.tag if not m.chosen else ''}" for m in primitive.memory]
    kept = [role for role in roles if ":" + _NONE not in role]
    return (primitive.kind, primitive.direction, primitive.problem, primitive.post_ops, *kept)


def is_product(primitive: Primitive) -> bool:
    """Return whether it is a matrix product, which torch may compute without oneDNN."""
    return primitive.kind in ("matmul", "inner_product")


def _task_of(primitive: Primitive) -> KernelReplay:
    if not primitive.engine.startswith("cpu"):
        raise NotReplayable(f"it ran on engine {primitive.engine}")
    if primitive.post_ops and primitive.kind != "convolution":
        raise NotReplayable(f"no kernel of torch has its post-operations {primitive.post_ops}")
    makers = {
        "convolution": _convolution,
        "deconvolution": _convolution,
        "inner_product": _inner_product,
        "matmul": _matmul,
    }
    if primitive.kind == "reorder":
        raise NotReplayable("no kernel that was replayed has this reorder")
    if primitive.kind not in makers:
        raise NotReplayable(f"torch runs no {primitive.kind} by oneDNN on its own tensors")
    _require_sane(primitive)
    try:
        name, arguments = makers[primitive.kind](primitive)
    except KeyError as size:
        raise NotReplayable(f"it has no size {size.args[0]}") from size
    return _replay(name, arguments)


def _require_sane(primitive: Primitive) -> None:
    """Raise NotReplayable for sizes that are none, or too large for a replay."""
    if any(size < 0 for size in primitive.parameters.values()) or not primitive.parameters:
        raise NotReplayable("its sizes are not known")
    size, work = primitive.bytes(), primitive.flops()
    if size is None or work is None or min(size, work) <= 0:
        raise NotReplayable("its sizes are not known")
    if size > MOST_BYTES:
        raise NotReplayable(f"its tensors have {size / 2**30:.3g} GiB, above {MOST_BYTES >> 30}")
    if work > MOST_FLOPS:
        raise NotReplayable(f"a call has {work:.2g} FLOPs, above {MOST_FLOPS:.0g}")


def _convolution(primitive: Primitive) -> tuple[str, list[_Argument]]:
    p, transposed = primitive.parameters, primitive.kind == "deconvolution"
    axes = [axis for axis in SPATIAL if any(f"{end}{axis}" in p for end in "iok")]
    groups = p.get("g", 1)
    if groups < 1 or p["ic"] % groups or p["oc"] % groups:
        raise NotReplayable(f"{groups} groups do not divide its channels")
    source = [p["mb"], p["ic"], *(p[f"i{axis}"] for axis in axes)]
    found = [p["mb"], p["oc"], *(p[f"o{axis}"] for axis in axes)]
    ends = (p["ic"], p["oc"]) if transposed else (p["oc"], p["ic"])
    kernel = [ends[0], ends[1] // groups, *(p[f"k{axis}"] for axis in axes)]
    last = _is_channels_last(primitive.memory)
    dtype = _dtype(primitive)
    stride = [p.get(f"s{axis}", 1) for axis in axes]
    padding = [p.get(f"p{axis}", 0) for axis in axes]
    dilation = [p.get(f"d{axis}", 0) + 1 for axis in axes]  # oneDNN counts it from 0
    beyond = _output_padding(p, axes, transposed=transposed)
    src, wei, dst = (_tensor(dims, dtype, last=last) for dims in (source, kernel, found))
    window = [_values(stride), _values(padding), _values(dilation)]
    how = [*window, _value(transposed), _values(beyond), _value(groups)]
    biased = _has_bias(primitive)
    if primitive.direction in ("FWD_D", "FWD_I"):
        bias = _tensor([p["oc"]], dtype) if biased else _Argument()
        if primitive.post_ops:
            return _fused(primitive, [src, wei, bias], window, groups)
        return "aten::convolution", [src, wei, bias, *how]
    wanted = {"BWD_D": [True, False, False], "BWD_W": [False, True, biased]}
    if primitive.direction not in wanted:
        raise NotReplayable(f"its propagation {primitive.propagation} is not known")
    sizes = _values([p["oc"]]) if biased else _Argument()
    mask = _values(wanted[primitive.direction])
    return "aten::convolution_backward", [dst, src, wei, sizes, *how, mask]


def _fused(
    primitive: Primitive, tensors: list[_Argument], window: list[_Argument], groups: int
) -> tuple[str, list[_Argument]]:
    """Return a convolution with ReLU behind it; raises NotReplayable for other post-operations."""
    name = primitive.post_ops.split(":")[0].removeprefix("eltwise_")
    if name != "relu" or "+" in primitive.post_ops or primitive.kind != "convolution":
        raise NotReplayable(f"no kernel of torch has its post-operations {primitive.post_ops}")
    stride, padding, dilation = window
    settings = [padding, stride, dilation, _value(groups), _value("relu"), _values([]), _value("")]
    return "mkldnn::_convolution_pointwise", [*tensors, *settings]


def _output_padding(p: Mapping[str, int], axes: Iterable[str], *, transposed: bool) -> list[int]:
    """Return what a deconvolution's output has beyond; raises NotReplayable where torch can't.

    torch pads both ends alike; oneDNN tells the padding of one.
    """
    beyond = []
    for axis in axes:
        stride, pad = p.get(f"s{axis}", 1), p.get(f"p{axis}", 0)
        reach = (p[f"k{axis}"] - 1) * (p.get(f"d{axis}", 0) + 1) + 1
        small, large = (p[f"{end}{axis}"] for end in ("io" if transposed else "oi"))
        if stride < 1:
            raise NotReplayable("its strides are not known")
        if not transposed and (large + 2 * pad - reach) // stride + 1 != small:
            raise NotReplayable("its padding is not the same at both ends")
        beyond.append(large - ((small - 1) * stride - 2 * pad + reach) if transposed else 0)
    if any(
        not 0 <= more < max(p.get(f"s{a}", 1), 1) for more, a in zip(beyond, axes, strict=False)
    ):
        raise NotReplayable("its padding is not the same at both ends")
    return beyond


def _inner_product(primitive: Primitive) -> tuple[str, list[_Argument]]:
    p, dtype = primitive.parameters, _dtype(primitive)
    width = p["ic"] * prod(p.get(f"i{axis}", 1) for axis in SPATIAL)
    source, kernel, found = [p["mb"], width], [p["oc"], width], [p["mb"], p["oc"]]
    if primitive.direction == "BWD_D":
        return "aten::mm", [_tensor(found, dtype), _tensor(kernel, dtype)]
    if primitive.direction == "BWD_W":
        return "aten::mm", [_tensor(found[::-1], dtype, (1, p["oc"])), _tensor(source, dtype)]
    bias = _tensor([p["oc"]], dtype) if _has_bias(primitive) else _Argument()
    settings = [_value("none"), _values([]), _value("")]
    tensors = [_tensor(source, dtype), _tensor(kernel, dtype), bias]
    return "mkldnn::_linear_pointwise", [*tensors, *settings]


def _matmul(primitive: Primitive) -> tuple[str, list[_Argument]]:
    p, dtype = primitive.parameters, _dtype(primitive)
    if _has_bias(primitive) and p["b"] > 1:
        raise NotReplayable("no kernel of torch adds a bias to batches of products")
    tags = {m.role: m.tag for m in primitive.memory}
    batch = [p["b"]] if p["b"] > 1 else []
    sides = []
    for role, rows, columns in (("src", p["m"], p["k"]), ("wei", p["k"], p["n"])):
        tag = tags.get(role, "")
        turned = tag[-2:] == tag[-2:][::-1] or sorted(tag) != list(tag)
        strides = [rows * columns, *((1, rows) if turned and len(tag) > 1 else (columns, 1))]
        sides.append(_tensor([*batch, rows, columns], dtype, strides[-len(batch) - 2 :]))
    if _has_bias(primitive):
        return "aten::addmm", [_tensor([p["n"]], dtype), *sides]
    return "aten::bmm" if batch else "aten::mm", sides


def _dtype(primitive: Primitive) -> str:
    """Return the type of source and weights; raises NotReplayable for several or unknown ones."""
    kinds = {m.dtype for m in primitive.memory if m.role in ("src", "wei", "data")}
    if len(kinds) != 1 or not kinds <= _DTYPES.keys():
        raise NotReplayable(f"no kernel of torch takes {' and '.join(sorted(kinds)) or 'no type'}")
    return kinds.pop()


def _has_bias(primitive: Primitive) -> bool:
    return any(m.role in ("bia", "bias") and m.dtype != _NONE for m in primitive.memory)


def _is_channels_last(memory: Iterable[Memory]) -> bool:
    """Return whether a tensor that oneDNN did not lay out itself is channels-last: acdb."""
    return any(
        not m.chosen and m.role in ("src", "dst") and m.tag.startswith("ac") and m.tag[-1:] == "b"
        for m in memory
    )


def _tensor(
    dims: Sequence[int], dtype: str, strides: Sequence[int] = (), *, last: bool = False
) -> _Argument:
    return _Argument(dims, _DTYPES[dtype][0], strides or _strides(dims, last=last))


def _strides(dims: Sequence[int], *, last: bool) -> list[int]:
    """Return the strides of a whole tensor, channels-last or in the order of its sizes."""
    order = [0, *range(2, len(dims)), 1] if last and len(dims) > 2 else list(range(len(dims)))
    strides, step = [0] * len(dims), 1
    for axis in reversed(order):
        strides[axis] = step
        step *= dims[axis]
    return strides


def _values(values: Sequence[int]) -> _Argument:
    return _Argument(value=repr(list(values)))


def _value(value: bool | int | str) -> _Argument:
    return _Argument(value=repr(value))


def _replay(kernel: str, arguments: Sequence[_Argument]) -> KernelReplay:
    dims, strides, dtypes, values = (
        json.dumps([list(one) if not isinstance(one, str) else one for one in column])
        for column in (
            [a.dims for a in arguments],
            [a.strides for a in arguments],
            [a.dtype for a in arguments],
            [a.value for a in arguments],
        )
    )
    return KernelReplay(
        key="|".join((kernel, dims, strides, dtypes, values)),
        kernel=kernel,
        dims=dims,
        strides=strides,
        dtypes=dtypes,
        values=values,
    )
