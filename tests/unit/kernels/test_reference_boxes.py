from fractions import Fraction
from itertools import product

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from kernels.reference.boxes import BACKGROUND, IGNORED, batched_nms, box_iou, box_match, nms

Box = tuple[int, int, int, int]

exhaustive = settings(max_examples=60, deadline=None, derandomize=True)


@st.composite
def a_box(draw: st.DrawFn) -> Box:
    x1, y1 = draw(st.integers(0, 6)), draw(st.integers(0, 6))
    return x1, y1, draw(st.integers(x1 + 1, 8)), draw(st.integers(y1 + 1, 8))


boxes_of = st.lists(a_box(), min_size=1, max_size=8)
thresholds = st.sampled_from([Fraction(1, 4), Fraction(1, 2)])


def tensor(boxes: list[Box]) -> Tensor:
    return torch.tensor(boxes, dtype=torch.float32).reshape(-1, 4)


def cells(box: Box) -> set[tuple[int, int]]:
    return set(product(range(box[0], box[2]), range(box[1], box[3])))


def iou(a: Box, b: Box) -> Fraction:
    """Intersection over union by counting unit squares."""
    return Fraction(len(cells(a) & cells(b)), len(cells(a) | cells(b)))


def greedy_nms(boxes: list[Box], order: list[int], threshold: Fraction) -> list[int]:
    kept: list[int] = []
    for index in order:
        if all(iou(boxes[index], boxes[k]) <= threshold for k in kept):
            kept.append(index)
    return kept


def by_score(scores: list[int], indices: list[int]) -> list[int]:
    return sorted(indices, key=lambda index: (-scores[index], index))


@exhaustive
@given(boxes_of, boxes_of)
def test_iou_counts_unit_squares(a: list[Box], b: list[Box]) -> None:
    expected = torch.tensor([[float(iou(x, y)) for y in b] for x in a])
    # Whole numbers below 2^24 are exact in fp32: only the division rounds.
    torch.testing.assert_close(box_iou(tensor(a), tensor(b)), expected, rtol=1e-6, atol=0)


def test_iou_with_no_boxes_is_empty() -> None:
    assert box_iou(tensor([]), tensor([(0, 0, 1, 1)])).shape == (0, 1)


@exhaustive
@given(boxes_of, st.data(), thresholds)
def test_nms_is_greedy(boxes: list[Box], data: st.DataObject, threshold: Fraction) -> None:
    scores = data.draw(st.lists(st.integers(0, 4), min_size=len(boxes), max_size=len(boxes)))
    order = by_score(scores, list(range(len(boxes))))

    kept = nms(tensor(boxes), torch.tensor(scores, dtype=torch.float32), float(threshold))

    assert kept.tolist() == greedy_nms(boxes, order, threshold)


@exhaustive
@given(boxes_of, st.data(), thresholds)
def test_batched_nms_is_nms_within_labels(
    boxes: list[Box], data: st.DataObject, threshold: Fraction
) -> None:
    some = st.lists(st.integers(0, 2), min_size=len(boxes), max_size=len(boxes))
    scores, labels = data.draw(some), data.draw(some)
    expected = []
    for label in set(labels):
        members = [index for index, other in enumerate(labels) if other == label]
        expected += greedy_nms(boxes, by_score(scores, members), threshold)

    kept = batched_nms(
        tensor(boxes),
        torch.tensor(scores, dtype=torch.float32),
        torch.tensor(labels),
        float(threshold),
    )

    assert kept.tolist() == by_score(scores, expected)


def test_nms_keeps_boxes_at_the_threshold_and_empty_boxes() -> None:
    half = tensor([(0, 0, 2, 1), (0, 0, 1, 1)])
    assert nms(half, torch.tensor([0.9, 0.8]), 0.5).tolist() == [0, 1]
    empty = tensor([(4, 4, 4, 4), (4, 4, 4, 4)])
    assert nms(empty, torch.tensor([0.8, 0.9]), 0.5).tolist() == [1, 0]


def test_nms_of_nothing_is_nothing() -> None:
    assert nms(tensor([]), torch.zeros(0), 0.5).shape == (0,)
    assert batched_nms(
        tensor([]), torch.zeros(0), torch.zeros(0, dtype=torch.int64), 0.5
    ).shape == (0,)


def matches_by_definition(anchors: list[Box], boxes: list[Box], low_quality: bool) -> list[int]:
    matches = []
    for anchor in anchors:
        quality = [iou(anchor, box) for box in boxes]
        best = max(quality)
        box = quality.index(best)
        chosen = any(iou(anchor, b) == max(iou(a, b) for a in anchors) for b in boxes)
        if best >= Fraction(1, 2) or (low_quality and chosen):
            matches.append(box)
        else:
            matches.append(BACKGROUND if best < Fraction(2, 5) else IGNORED)
    return matches


@exhaustive
@given(boxes_of, boxes_of, st.booleans())
def test_match_follows_the_definition(
    anchors: list[Box], boxes: list[Box], low_quality: bool
) -> None:
    matches = box_match(tensor(anchors), tensor(boxes), 0.5, 0.4, low_quality)

    assert matches.dtype == torch.int64
    assert matches.tolist() == matches_by_definition(anchors, boxes, low_quality)


@pytest.mark.parametrize(
    ("low_quality", "expected"), [(False, [0, -2, -1, -1]), (True, [0, -2, -1, 1])]
)
def test_match_by_hand(low_quality: bool, expected: list[int]) -> None:
    # IoU with the first box: 1, 4/9, 0, 0; with the second: 0, 0, 1/16, 1/4.
    anchors = tensor([(0, 0, 3, 3), (0, 0, 2, 2), (10, 10, 11, 11), (10, 10, 12, 12)])
    boxes = tensor([(0, 0, 3, 3), (10, 10, 14, 14)])

    assert box_match(anchors, boxes, 0.5, 0.4, low_quality).tolist() == expected


def test_without_boxes_all_anchors_are_background() -> None:
    matches = box_match(tensor([(0, 0, 3, 3), (0, 0, 2, 2)]), tensor([]), 0.5, 0.4, True)

    assert matches.dtype == torch.int64
    assert matches.tolist() == [BACKGROUND, BACKGROUND]
