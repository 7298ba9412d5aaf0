"""Which kernel of torch runs a primitive of a log, and with which inputs. Pure.

A log tells sizes, types and layouts of a primitive, and not who called it. What torch makes of the
kernel is logged again when it is replayed, so that only equal primitives are compared.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from math import prod

from controller.contracts.replay import KernelReplay
from controller.profiles.model import PrimitiveRow
from controller.profiles.opaque_replays import OPAQUE_MAKERS
from controller.profiles.primitive import SPATIAL, Memory, Primitive, primitive_of
from controller.profiles.replay_arguments import (
    NO_TYPE,
    Argument,
    NotReplayable,
    dtype_of,
    has_bias,
    replay_of,
    require_limits,
    tensor,
    value,
    values,
)


@dataclass(frozen=True, slots=True)
class Planned:
    """What is to be replayed for a log's primitives."""

    tasks: dict[str, KernelReplay]
    """Body → the kernel that runs it."""
    refused: dict[str, str]
    """Body → why there is none."""


def planned_replays(rows: Iterable[PrimitiveRow]) -> Planned:
    """Return the kernels that run the primitives; those of reorders come with other kernels."""
    tasks: dict[str, KernelReplay] = {}
    refused: dict[str, str] = {}
    for row in rows:
        primitive = primitive_of(row.body)
        try:
            if primitive is None:
                raise NotReplayable("its description is not known")
            tasks[row.body] = task_of(primitive)
        except NotReplayable as why:
            refused[row.body] = str(why)
    return Planned(tasks, refused)


def likeness(primitive: Primitive) -> tuple[str, ...]:
    """Return what primitives that do the same work have in common, whatever runs them."""
    roles = [f"{m.role}:{m.dtype}:{m.tag if not m.chosen else ''}" for m in primitive.memory]
    kept = [role for role in roles if ":" + NO_TYPE not in role]
    # How oneDNN convolves is its choice; which function another primitive computes is not.
    what = "" if "convolution" in primitive.kind else primitive.algorithm
    work = (primitive.kind, what, primitive.direction, primitive.problem, primitive.post_ops)
    return (*work, *kept)


def is_product(primitive: Primitive) -> bool:
    """Return whether it is a matrix product, which torch may compute without oneDNN."""
    return primitive.kind in ("matmul", "inner_product")


def task_of(primitive: Primitive) -> KernelReplay:
    """Return the kernel that runs a primitive; raises NotReplayable."""
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
    try:
        if primitive.kind in OPAQUE_MAKERS:
            return OPAQUE_MAKERS[primitive.kind](primitive)
        if primitive.kind not in makers:
            raise NotReplayable(f"torch runs no {primitive.kind} by oneDNN")
        size = _sane_bytes(primitive)
        name, arguments = makers[primitive.kind](primitive)
    except KeyError as unknown:
        raise NotReplayable(f"it has no size {unknown.args[0]}") from unknown
    return replay_of(name, arguments, size=size)


def _sane_bytes(primitive: Primitive) -> float:
    """Return the bytes of its tensors, all in fp32, whichever of them the log describes.

    Raises NotReplayable for sizes that are none, or too large for a replay.
    """
    if any(size < 0 for size in primitive.parameters.values()) or not primitive.parameters:
        raise NotReplayable("its sizes are not known")
    elements, work = primitive.elements().values(), primitive.flops()
    if not work or work < 0 or not elements or min(elements) < 1:
        raise NotReplayable("its sizes are not known")
    size = 4.0 * sum(elements)
    require_limits(size, work)
    return size


def _convolution(primitive: Primitive) -> tuple[str, list[Argument]]:
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
    dtype = dtype_of(primitive)
    stride = [p.get(f"s{axis}", 1) for axis in axes]
    padding = [p.get(f"p{axis}", 0) for axis in axes]
    dilation = [p.get(f"d{axis}", 0) + 1 for axis in axes]  # oneDNN counts it from 0
    beyond = _output_padding(p, axes, transposed=transposed)
    src, wei, dst = (tensor(dims, dtype, last=last) for dims in (source, kernel, found))
    window = [values(stride), values(padding), values(dilation)]
    how = [*window, value(transposed), values(beyond), value(groups)]
    biased = has_bias(primitive)
    if primitive.direction in ("FWD_D", "FWD_I"):
        bias = tensor([p["oc"]], dtype) if biased else Argument()
        if primitive.post_ops:
            return _fused(primitive, [src, wei, bias], window, groups)
        return "aten::convolution", [src, wei, bias, *how]
    wanted = {"BWD_D": [True, False, False], "BWD_W": [False, True, biased]}
    if primitive.direction not in wanted:
        raise NotReplayable(f"its propagation {primitive.propagation} is not known")
    sizes = values([p["oc"]]) if biased else Argument()
    mask = values(wanted[primitive.direction])
    return "aten::convolution_backward", [dst, src, wei, sizes, *how, mask]


def _fused(
    primitive: Primitive, tensors: list[Argument], window: list[Argument], groups: int
) -> tuple[str, list[Argument]]:
    """Return a convolution with ReLU behind it; raises NotReplayable for other post-operations."""
    name = primitive.post_ops.split(":")[0].removeprefix("eltwise_")
    if name != "relu" or "+" in primitive.post_ops or primitive.kind != "convolution":
        raise NotReplayable(f"no kernel of torch has its post-operations {primitive.post_ops}")
    stride, padding, dilation = window
    settings = [padding, stride, dilation, value(groups), value("relu"), values([]), value("")]
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


def _inner_product(primitive: Primitive) -> tuple[str, list[Argument]]:
    p, dtype = primitive.parameters, dtype_of(primitive)
    width = p["ic"] * prod(p.get(f"i{axis}", 1) for axis in SPATIAL)
    source, kernel, found = [p["mb"], width], [p["oc"], width], [p["mb"], p["oc"]]
    if primitive.direction == "BWD_D":
        return "aten::mm", [tensor(found, dtype), tensor(kernel, dtype)]
    if primitive.direction == "BWD_W":
        return "aten::mm", [tensor(found[::-1], dtype, (1, p["oc"])), tensor(source, dtype)]
    bias = tensor([p["oc"]], dtype) if has_bias(primitive) else Argument()
    settings = [value("none"), values([]), value("")]
    tensors = [tensor(source, dtype), tensor(kernel, dtype), bias]
    return "mkldnn::_linear_pointwise", [*tensors, *settings]


def _matmul(primitive: Primitive) -> tuple[str, list[Argument]]:
    p, dtype = primitive.parameters, dtype_of(primitive)
    if has_bias(primitive) and p["b"] > 1:
        raise NotReplayable("no kernel of torch adds a bias to batches of products")
    tags = {m.role: m.tag for m in primitive.memory}
    batch = [p["b"]] if p["b"] > 1 else []
    sides = []
    for role, rows, columns in (("src", p["m"], p["k"]), ("wei", p["k"], p["n"])):
        tag = tags.get(role, "")
        turned = tag[-2:] == tag[-2:][::-1] or sorted(tag) != list(tag)
        strides = [rows * columns, *((1, rows) if turned and len(tag) > 1 else (columns, 1))]
        sides.append(tensor([*batch, rows, columns], dtype, strides[-len(batch) - 2 :]))
    if has_bias(primitive):
        return "aten::addmm", [tensor([p["n"]], dtype), *sides]
    return "aten::bmm" if batch else "aten::mm", sides


def _is_channels_last(memory: Iterable[Memory]) -> bool:
    """Return whether a tensor that oneDNN did not lay out itself is channels-last: acdb."""
    return any(
        not m.chosen and m.role in ("src", "dst") and m.tag.startswith("ac") and m.tag[-1:] == "b"
        for m in memory
    )
