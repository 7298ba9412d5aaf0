"""How much two answers to one sample agree: 1 if they are the same, 0 if nothing in them is. Pure.

An answer is the bytes that the runner gave LoadGen: see agents/inference/runner/answers.py.
"""

from __future__ import annotations

from collections.abc import Iterator
from math import fsum
from typing import Final

import numpy as np
from numpy.typing import NDArray

from controller.contracts.mobile import ClassMap, Detections, OutputKind, Span, Upscaled
from models.mobile.samples import Truth
from models.mobile.spans import best_text

LEAST_IOU: Final = 0.5
"""Boxes with less intersection over union are of different objects."""
MOST_STEPS: Final = 2
"""Most that two colour values of equal pixels differ, of 255: two roundings."""
Rows = NDArray[np.float32]


def agreement(output: OutputKind, one: bytes, other: bytes, truth: Truth) -> float:
    """Return how much two answers agree, between 0 and 1.

    Class ids and texts agree or don't; class maps agree in a share of their pixels, images in a
    share of their colour values, detections in a share of their scores. Raises ValueError for an
    answer that has not the form of its kind.
    """
    if isinstance(output, Detections):
        return _of_boxes(_rows(one), _rows(other))
    if isinstance(output, Span):
        return float(_text(one, truth, output) == _text(other, truth, output))
    if isinstance(output, ClassMap | Upscaled):
        most = MOST_STEPS if isinstance(output, Upscaled) else 0
        return _of_bytes(one, other, most)
    return float(one == other)


def _of_bytes(one: bytes, other: bytes, most: int) -> float:
    if len(one) != len(other):
        return 0.0
    a, b = (np.frombuffer(answer, np.uint8).astype(np.int16) for answer in (one, other))
    return float((np.abs(a - b) <= most).mean()) if len(a) else 1.0


def _text(answer: bytes, truth: Truth, output: Span) -> str:
    logits = np.frombuffer(answer, "<f4").reshape(2, -1)
    return best_text(logits[output.start], logits[1 - output.start], truth, output)[1]


def _rows(answer: bytes) -> Rows:
    """Return (n, 6): top, left, bottom, right, class, score; the highest score first."""
    rows: Rows = np.nan_to_num(np.frombuffer(answer, "<f4").reshape(-1, 6))
    rows[:, 5] = rows[:, 5].clip(0, 1)
    best_first: Rows = rows[np.argsort(-rows[:, 5], kind="stable")]
    return best_first


def _of_boxes(one: Rows, other: Rows) -> float:
    """Return the share of all scores that boxes of one class and place have in both answers.

    So many boxes of low score, of which two runtimes give different ones, count for little.
    """
    total = fsum(one[:, 5]) + fsum(other[:, 5])  # exact, so that equal answers agree by 1
    return 2 * fsum(_shared_scores(one, other)) / total if total else float(len(one) == len(other))


def _shared_scores(one: Rows, other: Rows) -> Iterator[float]:
    """Yield the lower score of each pair, of which each box is in one at most."""
    left = other
    for row in one:
        overlaps = np.where(left[:, 4] == row[4], _iou(row, left), 0.0)
        if len(left) and overlaps.max() >= LEAST_IOU:
            match = int(overlaps.argmax())
            yield float(min(row[5], left[match, 5]))
            left = np.delete(left, match, axis=0)


def _iou(row: Rows, rows: Rows) -> NDArray[np.float64]:
    """Return the intersection over union of a box with each of several, 0 without any area."""
    a, b = row.astype(np.float64), rows.astype(np.float64)
    sides = np.minimum(a[2:4], b[:, 2:4]) - np.maximum(a[0:2], b[:, 0:2])
    common = sides.clip(0).prod(axis=1)
    union = (a[2:4] - a[0:2]).clip(0).prod() + (b[:, 2:4] - b[:, 0:2]).clip(0).prod(axis=1) - common
    shares: NDArray[np.float64] = np.where(union > 0, common / np.where(union > 0, union, 1), 0.0)
    return shares
