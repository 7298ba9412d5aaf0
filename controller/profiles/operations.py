"""Kinds of a framework's kernels, and the bytes that they move, by their recorded inputs. Pure."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from functools import lru_cache
from itertools import chain, repeat, zip_longest
from typing import Any

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
ATTENTION: Mapping[str, tuple[int, int, int]] = {
    "aten::_scaled_dot_product_flash_attention_for_cpu": (0, 4, 2),
    "aten::_scaled_dot_product_flash_attention_for_cpu_backward": (1, 7, 5),
}
"""Attention → indices of the query, which the key follows, and of `is_causal` among the inputs, and
how many products it makes: of queries with keys, and of weights with values. Backward, these are
four, and the first is made again (Dao et al. 2022, FlashAttention, algorithm 4)."""
BACKWARD = "aten::convolution_backward"
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


def input_bytes(kernel: str, dims: str, dtypes: str, strides: str = "") -> float | None:
    """Return the bytes of a kernel's input tensors, each once; None for a view or a gather.

    strides: if known; what an expanded tensor repeats counts once.
    """
    if kernel in VIEWS or kernel in GATHERS or not dims:
        return None
    return float(sum(_tensors(dims, dtypes, strides))) or None


def largest_bytes(kernel: str, dims: str, dtypes: str) -> float:
    """Return the bytes of a kernel's largest input, or of its output if it is elementwise."""
    return max(output_bytes(kernel, dims, dtypes), *_tensors(dims, dtypes), 0.0)


def _tensors(dims: str, dtypes: str, strides: str = "") -> list[int]:
    """Return the bytes of each input that is a tensor of a known type."""
    inputs = zip(_listed(dims), _listed(dtypes), chain(_listed(strides), repeat([])), strict=False)
    return [
        elements(_held(_first(size), _first(steps))) * _BYTES.get(kind, 0)
        for size, kind, steps in inputs
        if isinstance(kind, str) and size
    ]


def _held(size: list[int], steps: list[int]) -> list[int]:
    """Return the sizes without those of a stride of 0, which repeat the same elements."""
    if len(size) != len(steps):  # not recorded, or not of a tensor
        return size
    return [n for n, step in zip(size, steps, strict=True) if step]


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
