"""Conversion of a model's outputs to the answer that LoadGen logs; within the timed path, by the
rules.

Answers are little-endian and without a header; models/mobile/metrics.py reads each kind.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

Answer = NDArray[Any]


@dataclass(frozen=True, slots=True)
class Quantisation:
    """value = (step - zero_point) * scale; a scale of 0 means no quantisation."""

    scale: float
    zero_point: int


@dataclass(frozen=True, slots=True)
class Outputs:
    """The output tensors in the order of the file, each with its batch dimension."""

    tensors: Sequence[NDArray[Any]]
    quantisation: Sequence[Quantisation]
    first_class: int = 0
    """Index of a classifier's first output that may be the answer."""

    def values(self, number: int) -> NDArray[np.float32]:
        """Return an output as real numbers."""
        tensor, by = self.tensors[number], self.quantisation[number]
        real = tensor.astype(np.float32)
        return (real - np.float32(by.zero_point)) * np.float32(by.scale) if by.scale else real


def argmax(outputs: Outputs) -> Answer:
    """Return the index of the highest output, int64; a background before the classes is none."""
    first = outputs.first_class
    return np.array([first + outputs.tensors[0].reshape(-1)[first:].argmax()], "<i8")


def boxes(outputs: Outputs) -> Answer:
    """Return (n, 6) float32: top, left, bottom, right, class, score of each detection."""
    found = min(int(outputs.values(3).flat[0]), outputs.tensors[1].shape[-1])
    edges = outputs.values(0).reshape(-1, 4)
    others = (outputs.values(number).reshape(-1, 1) for number in (1, 2))
    return np.ascontiguousarray(np.hstack((edges, *others))[:found], "<f4")


def class_map(outputs: Outputs) -> Answer:
    """Return the class of each pixel, uint8; an output with scores gives the highest class."""
    tensor = outputs.tensors[0][0]
    if tensor.ndim == 3:
        tensor = tensor.argmax(-1) if tensor.shape[-1] > 1 else tensor[..., 0]
    return _lowest_byte(tensor)


def logits(outputs: Outputs) -> Answer:
    """Return (2, tokens) float32: the first two outputs."""
    return np.ascontiguousarray(
        np.stack([outputs.values(number).reshape(-1) for number in (0, 1)]), "<f4"
    )


def pixels(outputs: Outputs) -> Answer:
    """Return an image as uint8 (height, width, 3), converted as MLPerf Mobile's app does it.

    Real numbers are truncated, and not clipped: 256 becomes 0. Integers count steps from the lowest
    of their type, whatever their quantisation.
    """
    tensor = outputs.tensors[0][0]
    return _lowest_byte(tensor.astype(np.int32) + 128 if tensor.dtype == np.int8 else tensor)


def _lowest_byte(tensor: NDArray[Any]) -> Answer:
    return np.ascontiguousarray(tensor.astype(np.int32).astype(np.uint8))


def raw(outputs: Outputs) -> Answer:
    """Return the first output as it is."""
    return np.ascontiguousarray(outputs.tensors[0])


ANSWERS: Final[Mapping[str, Callable[[Outputs], Answer]]] = {
    "top1": argmax,
    "detections": boxes,
    "class_map": class_map,
    "span": logits,
    "upscaled": pixels,
    "raw": raw,
}
"""Kind of output in the task's manifest → conversion."""
