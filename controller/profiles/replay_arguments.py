"""Arguments of kernels that run a log's primitives, as traces write them. Pure."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import prod
from typing import Final

from controller.contracts.replay import CHOSEN, OPAQUE, KernelReplay
from controller.profiles.primitive import Primitive

DTYPES: Final[Mapping[str, tuple[str, int]]] = {
    "f32": ("float", 4),
    "bf16": ("c10::BFloat16", 2),
    "f16": ("c10::Half", 2),
}
"""oneDNN's type → torch's, as traces name it, and its bytes."""
NO_TYPE: Final = "undef"
MOST_BYTES: Final = 4 * 2**30
"""Of all tensors of a primitive. A log is not to be trusted with this host's memory."""
MOST_FLOPS: Final = 2e12
"""Of a call: some ten seconds of a server's core. Each is called a dozen times."""
_TYPED: Final = ("src", "wei", "data", "src_layer", "wei_layer")
"""oneDNN's names of the tensors that tell the type of a computation."""


class NotReplayable(Exception):
    """A primitive that no kernel of torch is known for; its text says why."""


@dataclass(frozen=True, slots=True)
class Argument:
    """An argument of a kernel: a tensor with its sizes, or another value as Python writes it."""

    dims: Sequence[int] = ()
    dtype: str = ""
    strides: Sequence[int] = ()
    value: str = ""


def dtype_of(primitive: Primitive) -> str:
    """Return the type of source and weights; raises NotReplayable for several or unknown ones."""
    kinds = {m.dtype for m in primitive.memory if m.role in _TYPED}
    if len(kinds) != 1 or not kinds <= DTYPES.keys():
        raise NotReplayable(f"no kernel of torch takes {' and '.join(sorted(kinds)) or 'no type'}")
    return kinds.pop()


def has_bias(primitive: Primitive) -> bool:
    """Return whether it adds a bias."""
    return any(m.role in ("bia", "bias") and m.dtype != NO_TYPE for m in primitive.memory)


def tensor(
    dims: Sequence[int], dtype: str, strides: Sequence[int] = (), *, last: bool = False
) -> Argument:
    """Return a tensor of one of DTYPES; without strides it is whole, `last`: channels-last."""
    return Argument(dims, DTYPES[dtype][0], strides or _strides(dims, last=last))


def opaque(dims: Sequence[int], dtype: str, *, chosen: bool = False) -> Argument:
    """Return a tensor that torch gave to oneDNN (`to_mkldnn`), in the order of its sizes.

    chosen: in the layout that oneDNN chooses for a convolution instead.
    """
    how = CHOSEN if chosen else OPAQUE
    return Argument(dims, f"{how} {DTYPES[dtype][0]}", _strides(dims, last=False))


def _strides(dims: Sequence[int], *, last: bool) -> list[int]:
    """Return the strides of a whole tensor, channels-last or in the order of its sizes."""
    order = [0, *range(2, len(dims)), 1] if last and len(dims) > 2 else list(range(len(dims)))
    strides, step = [0] * len(dims), 1
    for axis in reversed(order):
        strides[axis] = step
        step *= dims[axis]
    return strides


def values(numbers: Sequence[int]) -> Argument:
    """Return a list of numbers or of booleans."""
    return Argument(value=repr(list(numbers)))


def value(scalar: bool | int | float | str) -> Argument:
    """Return a value that is no tensor."""
    return Argument(value=repr(scalar))


def trains(direction: str) -> bool:
    """Return whether a primitive's direction is that of a forward pass in training."""
    return direction == "FWD_D"


def replay_of(
    kernel: str,
    arguments: Sequence[Argument],
    *,
    gradients: bool = False,
    trains: bool = False,
    size: float = 0.0,
) -> KernelReplay:
    """Return the task that runs a kernel; raises NotReplayable for tensors that are too large.

    size: bytes of all its tensors, if they are more than the arguments'.
    """
    size = max(size, _bytes_of(arguments))
    dims, strides, dtypes, told = (
        json.dumps([list(one) if not isinstance(one, str) else one for one in column])
        for column in (
            [a.dims for a in arguments],
            [a.strides for a in arguments],
            [a.dtype for a in arguments],
            [a.value for a in arguments],
        )
    )
    modes = {"gradients": gradients, "trains": trains}
    how = [name for name, is_on in modes.items() if is_on]
    return KernelReplay(
        key="|".join((kernel, dims, strides, dtypes, told, *how)),
        kernel=kernel,
        dims=dims,
        strides=strides,
        dtypes=dtypes,
        values=told,
        gradients=gradients,
        trains=trains,
        bytes=size,
    )


def _bytes_of(arguments: Sequence[Argument]) -> float:
    """Return the bytes of arguments in fp32; raises NotReplayable for empty or too large ones."""
    tensors = [argument for argument in arguments if argument.dtype]
    if any(size < 1 for argument in tensors for size in argument.dims):
        raise NotReplayable("its sizes are not known")
    size = 4.0 * sum(max(prod(one.dims), _reach(one)) for one in tensors)
    require_limits(size)
    return size


def _reach(argument: Argument) -> int:
    """Return how many elements lie between a tensor's first and last, both included."""
    return 1 + sum((n - 1) * step for n, step in zip(argument.dims, argument.strides, strict=True))


def require_limits(size: float, work: float = 0) -> None:
    """Raise NotReplayable for more bytes in all tensors, or FLOPs, than a log is trusted with."""
    if size > MOST_BYTES:
        raise NotReplayable(f"its tensors have {size / 2**30:.3g} GiB, above {MOST_BYTES >> 30}")
    if work > MOST_FLOPS:
        raise NotReplayable(f"a call has {work:.2g} FLOPs, above {MOST_FLOPS:.0g}")
