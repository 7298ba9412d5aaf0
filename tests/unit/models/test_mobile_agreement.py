"""Answers beside a reference's: what differs is told, whatever the accuracy is."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from controller.contracts.catalog import load_catalog
from controller.contracts.mobile import ClassMap, Detections, OutputKind, Span, Top1, Upscaled
from controller.contracts.units import Unit
from models.mobile.agreement import agreement
from models.mobile.errors import DatasetUnusable
from models.mobile.preparation import TRUTHS, Compared, CompareOrder, compared
from models.mobile.samples import TRUTH_JSON

TOP1, MAP, IMAGE, BOXES, SPAN = Top1(), ClassMap(classes=4), Upscaled(), Detections(), Span()
WHOLE = {
    "id": "q",
    "answers": ["b c"],
    "first": 1,
    "word_of": [0, 1, 2, 3],
    "best_context": [True] * 4,
    "words": ["a", "b", "c", "d"],
    "tokens": ["[CLS]", "a", "b", "c", "d", "[SEP]"],
}


def a_class(number: int) -> bytes:
    return np.array([number], "<i8").tobytes()


def pixels(*values: int) -> bytes:
    return bytes(values)


def boxes(*rows: Sequence[float]) -> bytes:
    return np.array(rows, "<f4").reshape(-1, 6).tobytes()


def logits(start: int, end: int, others: float = 0.0) -> bytes:
    both = np.full((2, 6), others, "<f4")
    both[0, start] = both[1, end] = 9
    return both.tobytes()


LEFT, RIGHT = (0.0, 0.0, 1.0, 0.4), (0.0, 0.5, 1.0, 1.0)
CASES: list[tuple[str, OutputKind, bytes, bytes, float]] = [
    ("the same class", TOP1, a_class(3), a_class(3), 1),
    ("the class after it", TOP1, a_class(3), a_class(4), 0),
    ("the same map", MAP, pixels(1, 2, 3, 0), pixels(1, 2, 3, 0), 1),
    ("a pixel of another class", MAP, pixels(1, 2, 3, 0), pixels(1, 2, 3, 1), 0.75),
    ("classes permuted", MAP, pixels(1, 2, 3, 0), pixels(2, 3, 0, 1), 0),
    ("a smaller map", MAP, pixels(1, 2, 3, 0), pixels(1, 2, 3), 0),
    ("an image rounded otherwise", IMAGE, pixels(9, 99, 255), pixels(7, 101, 254), 1),
    ("an image with a wrong value", IMAGE, pixels(9, 99, 255), pixels(9, 102, 255), 2 / 3),
    ("black and white exchanged", IMAGE, pixels(0, 255), pixels(255, 0), 0),
    ("the same boxes", BOXES, boxes((*LEFT, 1, 0.9)), boxes((*LEFT, 1, 0.9)), 1),
    (
        "the same boxes in another order",
        BOXES,
        boxes((*LEFT, 1, 0.9), (*RIGHT, 2, 0.6)),
        boxes((*RIGHT, 2, 0.6), (*LEFT, 1, 0.9)),
        1,
    ),
    ("another class of the box", BOXES, boxes((*LEFT, 1, 0.9)), boxes((*LEFT, 2, 0.9)), 0),
    ("another place of the box", BOXES, boxes((*LEFT, 1, 0.9)), boxes((*RIGHT, 1, 0.9)), 0),
    (
        "rows and columns exchanged",
        BOXES,
        boxes((0, 0, 1, 0.4, 1, 1)),
        boxes((0, 0, 0.4, 1, 1, 1)),
        0,
    ),
    ("a lower score", BOXES, boxes((*LEFT, 1, 0.9)), boxes((*LEFT, 1, 0.6)), 1.2 / 1.5),
    (
        "one more box of low score",
        BOXES,
        boxes((*LEFT, 1, 0.9)),
        boxes((*LEFT, 1, 0.9), (*RIGHT, 2, 0.1)),
        1.8 / 1.9,
    ),
    ("a box twice", BOXES, boxes((*LEFT, 1, 1)), boxes((*LEFT, 1, 1), (*LEFT, 1, 1)), 2 / 3),
    ("no boxes", BOXES, boxes(), boxes(), 1),
    ("none of the boxes", BOXES, boxes((*LEFT, 1, 0.9)), boxes(), 0),
    ("scores that are no numbers", BOXES, boxes((*LEFT, 1, 0.9)), boxes((*LEFT, 1, np.nan)), 0),
    ("the same text by other logits", SPAN, logits(2, 3), logits(2, 3, 5.0), 1),
    ("another text", SPAN, logits(2, 3), logits(3, 4), 0),
    ("start and end exchanged", SPAN, logits(2, 3), logits(3, 2), 0),
]


@pytest.mark.parametrize(
    ("output", "one", "other", "expected"), [c[1:] for c in CASES], ids=[c[0] for c in CASES]
)
def test_how_much_two_answers_agree(
    output: OutputKind, one: bytes, other: bytes, expected: float
) -> None:
    for pair in ((one, other), (other, one)):
        # Scores are float32.
        assert agreement(output, *pair, WHOLE) == pytest.approx(expected, abs=1e-6)


SHAPES = load_catalog().workloads["shapes_classifier"].on_device
assert SHAPES
TRUE = [n % 10 for n in range(40)]
"""Classes of the samples."""


def accuracy_log(path: Path, classes: Sequence[int]) -> Path:
    entries = [{"qsl_idx": n, "data": a_class(c).hex()} for n, c in enumerate(classes)]
    path.write_text("[\n" + ",\n".join(json.dumps(entry) for entry in entries) + "\n]\n")
    return path


def beside(tmp_path: Path, given: Sequence[int], reference: Sequence[int]) -> Compared:
    (tmp_path / TRUTHS).mkdir()
    (tmp_path / TRUTHS / TRUTH_JSON).write_text(json.dumps(TRUE))
    order = CompareOrder(
        workload=SHAPES,
        folder=tmp_path,
        samples=len(TRUE),
        answers=accuracy_log(tmp_path / "given.json", given),
        compared=20,
        reference=accuracy_log(tmp_path / "reference.json", reference),
    )
    return compared(order)


def some_wrong(classes: Sequence[int], count: int) -> list[int]:
    return [(c + 5) % 10 if n < count else c for n, c in enumerate(classes)]


@pytest.mark.parametrize(
    ("given", "figures"),
    [
        (TRUE, (0.9, 0.1, 0.9)),
        (some_wrong(TRUE, 2), (0.9, 0.0, 1.0)),
        ([(c + 1) % 10 for c in TRUE], (0.9, -0.9, 0.0)),
        # As many right ones, but others.
        ([TRUE[0], TRUE[1], 9, 9, *TRUE[4:]], (0.9, 0.0, 0.8)),
        # What comes after the reference's samples doesn't count.
        (some_wrong(TRUE, 2)[:20] + [9] * 20, (0.9, 0.0, 1.0)),
        # A run that was cut off is compared where it answered.
        (some_wrong(TRUE, 2)[:10], (0.8, 0.0, 1.0)),
    ],
)
def test_accuracy_difference_and_agreement(
    tmp_path: Path, given: Sequence[int], figures: tuple[float, float, float]
) -> None:
    found = beside(tmp_path, given, some_wrong(TRUE, 2)[:20])
    values = (found.accuracy.value, found.difference.value, found.agreement.value)
    assert values == pytest.approx(figures)
    assert found.samples == min(20, len(given))
    assert {found.accuracy.unit, found.difference.unit, found.agreement.unit} == {Unit.FRACTION}


@pytest.mark.parametrize("cut", [lambda answers: answers[:19], lambda answers: [*answers, 1]])
def test_a_reference_of_other_samples_is_refused(
    tmp_path: Path, cut: Callable[[list[int]], list[int]]
) -> None:
    seen = "accuracy run answered (19 of 20 samples|samples that there are not: 1, such as 20)"
    with pytest.raises(DatasetUnusable, match=seen):
        beside(tmp_path, TRUE, cut(TRUE[:20]))


def test_answers_without_a_common_sample_are_refused(tmp_path: Path) -> None:
    with pytest.raises(DatasetUnusable, match="they have no sample in common"):
        beside(tmp_path, [], TRUE[:20])


def test_an_answer_of_another_form_is_refused() -> None:
    wrong: Any = b"\0" * 25
    with pytest.raises(ValueError, match="buffer size"):
        agreement(BOXES, wrong, boxes(), None)
