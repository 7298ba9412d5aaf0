"""What a fused optimizer's update moves, by the tensors that a trace names of it. Pure.

It reads each of its lists of tensors and writes all but the gradients, so that it is no copy: it
has a roof of its own (`controller.contracts.peaks.UPDATE`).
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from typing import Final

from controller.profiles.operations import element_bytes, elements

FUSED: Final = re.compile(r"aten::_fused_(?:sgd|adam|adamw|adagrad)_")
"""torch's kernels, each of which updates all tensors of its lists."""
GRADIENTS: Final = 1
"""Index of the list that is only read."""
ACCUMULATED: Final = "torch::autograd::AccumulateGrad"
"""What puts a gradient into its parameter, whose data type it has. Of lists, no trace tells it."""


def is_update(kernel: str) -> bool:
    """Return whether a kernel is a fused optimizer's update."""
    return FUSED.fullmatch(kernel) is not None


def parameter_bytes(kernels: Iterable[tuple[str, str]]) -> int | None:
    """Return the bytes of a parameter's element; None if nothing tells, or they differ.

    kernels: name and, as JSON, data types of the inputs of each kernel of the trace.
    """
    found = {dtypes for kernel, dtypes in kernels if kernel == ACCUMULATED}
    sizes = {element_bytes(kind) for dtypes in found for kind in json.loads(dtypes or "[]")[:1]}
    return sizes.pop() if len(sizes) == 1 else None


def update_bytes(dims: str, size: int | None) -> float | None:
    """Return the bytes that an update reads and writes.

    dims: sizes of its inputs, as JSON: lists of tensors, then single numbers. size: of an element.
    """
    lists = [_elements(one) for one in json.loads(dims or "[]")]
    if not size or not any(lists):
        return None
    written = sum(lists) - sum(lists[GRADIENTS : GRADIENTS + 1])
    return float(size * (sum(lists) + written))


def _elements(tensors: object) -> int:
    if not isinstance(tensors, list):
        return 0
    return sum(elements(size) for size in tensors if isinstance(size, list))
