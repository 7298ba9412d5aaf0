"""Which kernel of torch runs a primitive of a log, and with which inputs. Pure.

A log tells sizes, types and layouts of a primitive, and not who called it. What torch makes of the
kernel is logged again when it is replayed, so that only equal primitives are compared.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Final

from controller.contracts.replay import KernelReplay
from controller.profiles.fused_replays import Task, fused_convolution, fused_deconvolution
from controller.profiles.model import PrimitiveRow
from controller.profiles.opaque_replays import OPAQUE_MAKERS
from controller.profiles.primitive import SPATIAL, Memory, Primitive, primitive_of
from controller.profiles.product_replays import SCALED, inner_product, matmul
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

MOST_TASKS: Final = 5_000
"""Of a log: each is run a dozen times, and a request has a limit."""
_NO_MODES: Final = ("attr-scratchpad", "scratchpad_mode")
"""Attributes that change nothing of what is computed; post-operations are told apart."""
_POST_OPS: Final = re.compile(r"attr-post-ops:\S+|post_ops:'[^']*'")
_SAME_FORWARD: Final = frozenset(
    ("convolution", "deconvolution", "eltwise", "inner_product", "prelu", "softmax", "softmax_v2")
)
"""Kinds of primitives that keep nothing for gradients: in training they do what they infer."""


@dataclass(frozen=True, slots=True)
class Planned:
    """What is to be replayed for a log's primitives."""

    tasks: dict[str, KernelReplay]
    """Body → the kernel that runs it."""
    refused: dict[str, str]
    """Body → why there is none."""


def planned_replays(rows: Iterable[PrimitiveRow], most: int = MOST_TASKS) -> Planned:
    """Return the kernels that run the primitives; those of reorders come with other kernels.

    rows: those with most time first. most: primitives that are run.
    """
    tasks: dict[str, KernelReplay] = {}
    refused: dict[str, str] = {}
    for row in rows:
        primitive = primitive_of(row.body)
        try:
            if primitive is None:
                raise NotReplayable("its description is not known")
            if len(tasks) >= most:
                raise NotReplayable(f"{most:,} others take longer")
            tasks[row.body] = task_of(primitive)
        except NotReplayable as why:
            refused[row.body] = str(why)
    return Planned(tasks, refused)


def likeness(primitive: Primitive) -> tuple[str, ...]:
    """Return what primitives that do the same work have in common, whatever runs them."""
    roles = [
        f"{m.role}:{m.dtype}:{'' if m.chosen else f'{m.tag}:{m.strides}'}"
        for m in primitive.memory
        if m.dtype != NO_TYPE
    ]
    # How oneDNN convolves is its choice; which function another primitive computes is not.
    what = "" if "convolution" in primitive.kind else primitive.algorithm
    problem = primitive.problem
    if primitive.kind == "matmul":  # some releases tell the output's sizes, too
        problem = ":".join(problem.split(":")[:2])
    work = (primitive.kind, what, way_of(primitive), problem, primitive.post_ops)
    # A product that is multiplied by a number takes no longer for it.
    modes = (mode for mode in modes_of(primitive) if (primitive.kind, mode) != ("matmul", SCALED))
    return (*work, *modes, primitive.odd_bias, *roles)


def way_of(primitive: Primitive) -> str:
    """Return its direction; one for both forward ones, if they do the same."""
    kind, algorithm = primitive.kind, primitive.algorithm
    same = (
        kind in _SAME_FORWARD
        or algorithm.startswith("pooling_avg")
        or (kind == "batch_normalization" and "G" in algorithm and "R" not in algorithm)
    )
    return "FWD" if same and primitive.direction.startswith("FWD") else primitive.direction


def modes_of(primitive: Primitive) -> tuple[str, ...]:
    """Return the attributes by which it computes otherwise than its sizes and types tell.

    They are modes of arithmetic, scales, zero points and so on, as oneDNN logs them
    (src/common/verbose.cpp).
    """
    told = re.split(r"[\s;]+", _POST_OPS.sub("", primitive.attributes))
    return tuple(one for one in told if one and not one.startswith(_NO_MODES))


def is_product(primitive: Primitive) -> bool:
    """Return whether it is a matrix product, which torch may compute without oneDNN."""
    return primitive.kind in ("matmul", "inner_product")


def task_of(primitive: Primitive) -> KernelReplay:
    """Return the kernel that runs a primitive; raises NotReplayable."""
    if not primitive.engine.startswith("cpu"):
        raise NotReplayable(f"it ran on engine {primitive.engine}")
    modes = modes_of(primitive)
    if modes and not (primitive.kind == "matmul" and modes == (SCALED,)):
        raise NotReplayable(f"no kernel of torch runs it with {' '.join(modes)}")
    if primitive.post_ops and primitive.kind not in _MAKERS:
        raise NotReplayable(f"no kernel of torch has its post-operations {primitive.post_ops}")
    if primitive.kind == "reorder":
        raise NotReplayable("no kernel that was replayed has this reorder")
    try:
        if primitive.kind in OPAQUE_MAKERS:
            return OPAQUE_MAKERS[primitive.kind](primitive)
        if primitive.kind not in _MAKERS:
            raise NotReplayable(f"torch runs no {primitive.kind} by oneDNN")
        size = _sane_bytes(primitive)
        name, arguments = _MAKERS[primitive.kind](primitive)
    except KeyError as unknown:
        raise NotReplayable(f"it has no size {unknown.args[0]}") from unknown
    except (ArithmeticError, IndexError, ValueError) as damaged:
        raise NotReplayable("its description is damaged") from damaged
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


def _convolution(primitive: Primitive) -> Task:
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
        # Without gradients, torch asks oneDNN to infer only in kernels that fuse.
        if primitive.post_ops or (primitive.direction == "FWD_I" and last and not transposed):
            return _fused(primitive, [src, wei, bias], found, how, last=last)
        return "aten::convolution", [src, wei, bias, *how]
    if primitive.post_ops:
        raise NotReplayable(f"no kernel of torch has its post-operations {primitive.post_ops}")
    wanted = {"BWD_D": [True, False, False], "BWD_W": [False, True, biased]}
    if primitive.direction not in wanted:
        raise NotReplayable(f"its propagation {primitive.propagation} is not known")
    sizes = values([p["oc"]]) if biased else Argument()
    mask = values(wanted[primitive.direction])
    return "aten::convolution_backward", [dst, src, wei, sizes, *how, mask]


def _fused(
    primitive: Primitive,
    tensors: list[Argument],
    found: list[int],
    how: list[Argument],
    *,
    last: bool,
) -> Task:
    """Return a convolution or deconvolution with post-operations; raises NotReplayable."""
    stride, padding, dilation, _, beyond, groups = how
    if primitive.kind == "deconvolution":
        settings = [padding, beyond, stride, dilation, groups]
        return fused_deconvolution(primitive, tensors, settings)
    settings = [padding, stride, dilation, groups]
    return fused_convolution(primitive, tensors, found, settings, last=last)


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


def _is_channels_last(memory: Iterable[Memory]) -> bool:
    """Return whether a tensor that oneDNN did not lay out itself is channels-last: acdb."""
    return any(
        not m.chosen and m.role in ("src", "dst") and m.tag.startswith("ac") and m.tag[-1:] == "b"
        for m in memory
    )


_MAKERS: Final[Mapping[str, Callable[[Primitive], Task]]] = {
    "convolution": _convolution,
    "deconvolution": _convolution,
    "inner_product": inner_product,
    "matmul": matmul,
}
"""Kind of primitive → its kernel and arguments; the functions raise as OPAQUE_MAKERS'."""
