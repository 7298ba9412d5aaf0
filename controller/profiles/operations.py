"""FLOPs and bytes of a framework kernel, from its recorded inputs. Pure."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from functools import lru_cache
from itertools import zip_longest
from math import prod
from typing import Any

from controller.profiles.convolutions import Axis, axis_of, share_inside

_BYTES: Mapping[str, int] = {
    **dict.fromkeys(("double", "long int", "c10::complex<float>"), 8),
    **dict.fromkeys(("float", "int"), 4),
    **dict.fromkeys(("c10::BFloat16", "c10::Half", "short int"), 2),
    **dict.fromkeys(("bool", "signed char", "unsigned char", "c10::Float8_e4m3fn"), 1),
}
DTYPES: Mapping[str, str] = {
    "float": "f32",
    "double": "f64",
    "c10::BFloat16": "bf16",
    "c10::Half": "f16",
    "signed char": "s8",
    "unsigned char": "u8",
}
"""torch's names of data types → oneDNN's."""
_VIEWS = (
    *("view", "reshape", "permute", "transpose", "t", "expand", "expand_as", "as_strided"),
    *("slice", "select", "unsqueeze", "squeeze", "flatten", "detach", "alias", "narrow"),
    *("split", "chunk", "unbind", "_unsafe_view", "_reshape_alias", "empty", "empty_like"),
    *("empty_strided", "resize_", "result_type", "lift_fresh", "unfold", "split_with_sizes"),
    *("as_strided_", "resolve_conj", "resolve_neg"),
)
VIEWS = frozenset((*(f"aten::{name}" for name in _VIEWS), "detach"))
"""Views, which move no data; autograd's own `detach` has no namespace, and is not always called."""
GEMMS: Mapping[str, int] = {
    "aten::mm": 0,
    "aten::bmm": 0,
    "aten::addmm": 1,
    "aten::addmm_": 1,
    "aten::baddbmm": 1,
    "aten::baddbmm_": 1,
}
"""Matrix product → index of its first factor among the inputs."""
FORWARD: Mapping[str, slice] = {
    "aten::mkldnn_convolution": slice(None),  # padding, stride, dilation
    "aten::_slow_conv2d_forward": slice(2, 0, -1),  # size of weights, stride, padding
}
"""Convolution → position of padding, stride and dilation among the inputs that are lists."""
ATTENTION: Mapping[str, tuple[int, int, int]] = {
    "aten::_scaled_dot_product_flash_attention_for_cpu": (0, 4, 2),
    "aten::_scaled_dot_product_flash_attention_for_cpu_backward": (1, 7, 5),
}
"""Attention → indices of the query, which the key follows, and of `is_causal` among the inputs, and
how many products it makes: of queries with keys, and of weights with values. Backward, these are
four, and the first is made again (Dao et al. 2022, FlashAttention, algorithm 4)."""
BACKWARD = "aten::convolution_backward"
TRANSPOSED = 7
"""Index among its inputs."""
STRIDE, PADDING, DILATION = 4, 5, 6
"""Indices among its inputs; the first two are those of PART, too."""
_COMPUTING = (
    *("aten::slow_conv", "aten::_slow_conv", "aten::mkldnn_convolution", "aten::mkldnn_rnn_layer"),
    *("aten::scaled_dot_product_", "aten::_scaled_dot_product_", "mkldnn::_", "quantized::linear"),
    *("quantized::conv", "aten::_int_mm", "aten::_scaled_mm", "aten::_weight_int", "aten::linalg_"),
)
"""What names of kernels begin with that compute much, of FLOPs that inputs don't always tell."""
_GATHERS = (
    *("embedding", "embedding_bag", "_embedding_bag", "_embedding_bag_forward_only", "take"),
    *("index", "index_select", "gather", "_index_put_impl_", "index_put_", "index_add_"),
    *("index_copy_", "index_fill_", "scatter_", "scatter_add_"),
)
GATHERS = frozenset(f"aten::{name}" for name in _GATHERS)
"""Kernels that read or write some rows of a tensor; a trace doesn't tell how many."""
_EACH = (
    *("relu", "leaky_relu", "threshold", "hardtanh", "hardswish", "gelu", "silu", "sigmoid"),
    *("tanh", "exp", "log", "neg", "abs", "sqrt", "rsqrt", "pow", "clamp", "clamp_min"),
    *("add", "sub", "mul", "div", "maximum", "minimum", "addcmul", "addcdiv"),
    *("threshold_backward", "gelu_backward", "silu_backward", "sigmoid_backward"),
    *("tanh_backward", "hardtanh_backward", "hardswish_backward", "leaky_relu_backward"),
)
EACH = frozenset(f"aten::{name}{end}" for name in _EACH for end in ("", "_"))
"""Elementwise kernels, also in place: what they write is as large as their inputs' broadcast."""
MOST_ELEMENTS = 2**48
"""Of a tensor; it bounds products of sizes that are made up."""
PART = "aten::_slow_conv2d_backward"
"""The kernel that `aten::convolution_backward` calls where torch doesn't use oneDNN."""
_MADE_UP = (ValueError, TypeError, IndexError, ArithmeticError, RecursionError)
"""What inputs raise that no call has."""


def shapes(text: str) -> list[list[int]]:
    """Return the sizes of a kernel's inputs; a list of tensors counts as its first tensor."""
    return [_first(one) for one in _listed(text)]


def _first(value: object) -> list[int]:
    while isinstance(value, list) and value and isinstance(value[0], list):
        value = value[0]
    known = isinstance(value, list) and all(isinstance(n, int) and n >= 0 for n in value)
    return value if known and isinstance(value, list) else []


def element_bytes(dtype: str) -> int | None:
    """Return the bytes of an element, by torch's name of its data type; None if not known."""
    return _BYTES.get(dtype)


def main_type(dtypes: str) -> str:
    """Return torch's name of the first input's data type; empty if it has none."""
    found = _listed(dtypes)
    return found[0] if found and isinstance(found[0], str) else ""


@lru_cache(maxsize=4096)  # profiles repeat their texts
def main_dtype(dtypes: str) -> str:
    """Return oneDNN's name of the first input's data type; empty if it has none."""
    return DTYPES.get(main_type(dtypes), "")


def values_of(values: str) -> list[str]:
    """Return a kernel's inputs that are not tensors, each at its place; empty where it is one."""
    return [one if isinstance(one, str) else "" for one in _listed(values)]


def input_bytes(kernel: str, dims: str, dtypes: str) -> float | None:
    """Return the bytes of a kernel's input tensors, each once; None for a view or a gather."""
    if kernel in VIEWS or kernel in GATHERS or not dims:
        return None
    return float(sum(_tensors(dims, dtypes))) or None


def largest_bytes(kernel: str, dims: str, dtypes: str) -> float:
    """Return the bytes of a kernel's largest input, or of its output if it is elementwise."""
    return max(output_bytes(kernel, dims, dtypes), *_tensors(dims, dtypes), 0.0)


def _tensors(dims: str, dtypes: str) -> list[int]:
    """Return the bytes of each input that is a tensor of a known type."""
    return [
        elements(_first(size)) * _BYTES.get(kind, 0)
        for size, kind in zip(_listed(dims), _listed(dtypes), strict=False)
        if isinstance(kind, str) and size
    ]


def output_bytes(kernel: str, dims: str, dtypes: str) -> float:
    """Return the bytes that an elementwise kernel writes, in its first input's type; 0 of others.

    A trace doesn't record outputs.
    """
    if kernel not in EACH or not dims:
        return 0.0
    reversed_sizes = (reversed(size) for size in shapes(dims))
    broadcast = [max(axis) for axis in zip_longest(*reversed_sizes, fillvalue=1)]
    size = _BYTES.get(main_type(dtypes), 0)
    return float(elements(broadcast) * size) if broadcast else 0.0


def computes(kernel: str) -> bool:
    """Return whether a kernel computes so much that moving its bytes is no bound of its time."""
    return kernel in GEMMS or kernel == BACKWARD or kernel.startswith(_COMPUTING)


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


def elements(size: Sequence[object]) -> int:
    """Return the elements of a tensor of some size; 0 if no tensor has such a size."""
    found = 1
    for number in size:
        if not isinstance(number, int) or not 0 <= number <= MOST_ELEMENTS or found > MOST_ELEMENTS:
            return 0
        found *= number
    return found


def keeps_type(dtypes: str) -> bool:
    """Return whether a copy's target and source have the same type; False if nothing tells."""
    target, source, *_ = (*_listed(dtypes), None, None)
    return target is not None and target == source


def keeps_layout(dims: str, strides: str) -> bool:
    """Return whether a copy's target and source are of one size, and lie alike; False if nothing
    tells. The stride of a single element says nothing."""
    sizes, laid = shapes(dims)[:2], shapes(strides)[:2]
    if len(sizes) < 2 or sizes[0] != sizes[1] or {*map(len, laid)} != {len(sizes[0])}:
        return False
    target, *source = (
        [step for n, step in zip(sizes[0], of, strict=True) if n != 1] for of in laid
    )
    return [target] == source


def _listed(text: str) -> list[Any]:
    """Return what a trace lists of a kernel's inputs; nothing if it is no list."""
    try:
        found = json.loads(text) if text else []
    except (ValueError, RecursionError):
        return []
    return found if isinstance(found, list) else []
