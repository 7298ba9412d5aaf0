"""FLOPs of a framework's kernel, from its recorded inputs. Pure."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from math import prod

from controller.profiles.convolutions import Axis, axis_of, share_inside
from controller.profiles.operations import (
    ATTENTION,
    BACKWARD,
    GEMMS,
    PART,
    elements,
    shapes,
    values_of,
)

FORWARD: Mapping[str, slice] = {
    "aten::mkldnn_convolution": slice(None),  # padding, stride, dilation
    "aten::_slow_conv2d_forward": slice(2, 0, -1),  # size of weights, stride, padding
}
"""Convolution → position of padding, stride and dilation among the inputs that are lists."""
TRANSPOSED = 7
"""Index among the inputs of BACKWARD."""
STRIDE, PADDING, DILATION = 4, 5, 6
"""Indices among the inputs of BACKWARD; the first two are those of PART, too."""
_MADE_UP = (ValueError, TypeError, IndexError, ArithmeticError, RecursionError)
"""What inputs raise that no call has."""


def flops(kernel: str, dims: str, values: str) -> float | None:
    """Return the FLOPs of one call of a matrix product, convolution or attention, else None.

    None, too, of inputs that no such call has.
    """
    try:
        return _flops(kernel, shapes(dims), values)
    except _MADE_UP:
        return None


def taps_inside(kernel: str, dims: str, values: str) -> float | None:
    """Return the share of taps inside the input of a convolution of torch's; None if not known."""
    try:
        axes = _axes_of(kernel, shapes(dims), values)
        return share_inside(axes) if axes else None
    except _MADE_UP:
        return None


def _flops(kernel: str, sizes: Sequence[list[int]], values: str) -> float | None:
    if kernel in GEMMS:
        factors = sizes[GEMMS[kernel] : GEMMS[kernel] + 2]
        return 2.0 * elements(factors[0]) * factors[1][-1] if _both(factors) else None
    if kernel in ATTENTION:
        return _attention(kernel, sizes, values)
    if kernel in (BACKWARD, PART) and len(sizes) >= 3:
        return _convolution_backward(sizes, values)
    if kernel in FORWARD and len(sizes) >= 2:
        return _convolution(sizes, _forward_axes(kernel, sizes, values))
    return None


def _both(factors: Sequence[Sequence[int]]) -> bool:
    return len(factors) == 2 and all(factors)  # without record_shapes there are none


def _lists(values: str) -> list[list[int]]:
    """Return the inputs that are lists of numbers."""
    return [json.loads(one) for one in values_of(values) if one.startswith("[")]


def _attention(kernel: str, sizes: Sequence[Sequence[int]], values: str) -> float | None:
    """Return the FLOPs of attention; if causal, query i sees the keys up to i."""
    first, causal, products = ATTENTION[kernel]
    query, key = sizes[first : first + 2]
    if len(query) < 3 or len(key) < 3:
        return None
    queries, keys = query[-2], key[-2]
    pairs = queries * keys
    if values_of(values)[causal] == "True":
        square = min(queries, keys)
        pairs = square * (square + 1) // 2 + (queries - square) * keys
    return 2.0 * products * elements((*query[:-2], query[-1], pairs))


def _convolution(sizes: Sequence[Sequence[int]], axes: Sequence[Axis]) -> float | None:
    """Return the FLOPs of a convolution, with the taps in its padding."""
    source, weights = sizes[:2]
    if not axes or any(axis.out < 1 for axis in axes):
        return None
    return 2.0 * elements(weights) * source[0] * prod(axis.out for axis in axes)


def _axes_of(kernel: str, sizes: Sequence[list[int]], values: str) -> list[Axis]:
    """Return a convolution's dimensions; none of other kernels, and of transposed ones."""
    if kernel in FORWARD:
        return _forward_axes(kernel, sizes, values)
    listed = values_of(values)
    is_part = kernel == PART
    if not is_part and (kernel != BACKWARD or listed[TRANSPOSED] == "True"):
        return []
    gradient, source, weights = sizes[:3]
    stride, padding = json.loads(listed[STRIDE]), json.loads(listed[PADDING])
    dilation = [1] * len(stride) if is_part else json.loads(listed[DILATION])
    along = (source[2:], gradient[2:], weights[2:], padding, stride, dilation)
    return [Axis(*map(int, each)) for each in zip(*along, strict=True)]


def _forward_axes(kernel: str, sizes: Sequence[list[int]], values: str) -> list[Axis]:
    """Return the dimensions from padding, stride and, if given, dilation; none if not given."""
    lists = _lists(values)[FORWARD[kernel]]
    if len(lists) < 2:
        return []
    source, weights = sizes[0][2:], sizes[1][2:]
    padding, stride, *more = lists[:3]
    dilation = more[0] if more else [1] * len(source)
    along = zip(source, weights, padding, stride, dilation, strict=True)
    return [axis_of(*map(int, each)) for each in along]


def _convolution_backward(sizes: Sequence[Sequence[int]], values: str) -> float | None:
    """Return the FLOPs of a convolution's gradients of input and weights, as far as wanted.

    Weights meet each pixel of the output, or of the input if the convolution is transposed.
    """
    gradient, source, weights = sizes[:3]
    listed = values_of(values)
    if not gradient or not weights or not listed:
        return None
    wanted: list[bool] = [word.strip() == "True" for word in listed[-1].strip("[]").split(",")]
    is_transposed = len(listed) > TRANSPOSED and listed[TRANSPOSED] == "True"
    pixels = source[2:] if is_transposed else gradient[2:]
    one = 2.0 * gradient[0] * elements(pixels) * elements(weights)
    return one * sum(wanted[:2])
