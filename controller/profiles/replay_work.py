"""At most how many FLOPs a kernel takes, of inputs that nobody vouches for. Pure.

What `operation_flops` tells is of a trace's own calls. A bound rests only on what the call itself
takes: sizes, and a convolution's padding at its place.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from math import prod
from typing import Final

from controller.profiles.operation_flops import flops
from controller.profiles.operations import GEMMS, elements, shapes, values_of

ATTENTION: Final = "aten::_scaled_dot_product_flash_attention_for_cpu"
_ATTENTIONS: Final = (ATTENTION, f"{ATTENTION}_backward")
_LSTMS: Final = ("aten::mkldnn_rnn_layer", "aten::mkldnn_rnn_layer_backward")
_PADDING: Final[Mapping[str, int]] = {
    "aten::_convolution": 4,
    "aten::convolution": 4,
    "aten::mkldnn_convolution": 3,
}
"""Convolution → place of its padding among the inputs."""
_BACKWARD: Final = "aten::convolution_backward"
_EACH: Final = frozenset(
    f"aten::{name}"
    for name in (
        *("add", "add_", "copy_", "mul", "mul_", "gelu", "gelu_backward", "relu", "relu_"),
        *("sigmoid", "tanh", "prelu", "threshold_backward", "_softmax", "_log_softmax"),
        *("native_batch_norm", "native_batch_norm_backward", "native_layer_norm"),
    )
)
"""Kernels that take each element a few times: the size of their tensors bounds their work."""
KNOWN: Final = frozenset((*GEMMS, *_PADDING, _BACKWARD, *_ATTENTIONS, *_LSTMS, *_EACH))
"""Kernels that may call oneDNN, and whose work has a bound."""


def most_flops(kernel: str, dims: str, values: str) -> float | None:
    """Return a bound of the FLOPs of a call of a KNOWN kernel, a multiply-add counting as two.

    dims, values: of its inputs, as a trace writes them. None for inputs that no call has.
    """
    try:
        return _most_flops(kernel, dims, values)
    except (ArithmeticError, IndexError, RecursionError, TypeError, ValueError):
        return None


def _most_flops(kernel: str, dims: str, values: str) -> float | None:
    if kernel in GEMMS:
        return flops(kernel, dims, "")
    if kernel in _EACH:
        return 0.0
    first, second, *others = shapes(dims)
    if kernel in _PADDING:
        return _convolution(first, second, json.loads(values_of(values)[_PADDING[kernel]]))
    if kernel == _BACKWARD:  # of the input and of the weights
        return 2 * _convolution(first, others[0], [0])
    if kernel in _ATTENTIONS:  # backward makes five products, forward two
        longest = max(first[-2], second[-2], others[0][-2])
        return 10.0 * max(elements(first), elements(second)) * longest
    weights = elements(second) + elements(others[0])  # of the input, and of the state
    return 6.0 * prod(first[:2]) * weights


def _convolution(images: Sequence[int], weights: Sequence[int], padding: Sequence[int]) -> float:
    """Return the FLOPs with a stride of 1; of a transposed one they are no more.

    images: the input, or the gradient of the output. padding: torch takes one for all axes, too.
    """
    if len(images) != len(weights) or len(images) < 3:
        raise ValueError(weights)
    pixels = prod(size + 2 * max(padding) for size in images[2:])
    return 2.0 * elements(weights) * images[0] * pixels
