"""Compiled box operators, every variant of them: exactly what the reference says."""

from __future__ import annotations

import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor
from torch.library import opcheck

from kernels.ops.batched_nms import batched_nms
from kernels.ops.box_match import box_match
from kernels.ops.nms import nms
from kernels.reference import boxes as reference

few = settings(max_examples=40)


def some_boxes(count: int, seed: int, side: float = 100.0) -> Tensor:
    """Boxes on a grid of quarters, so that equal overlaps are common."""
    generator = torch.Generator().manual_seed(seed)
    corner = torch.rand(count, 2, generator=generator) * side
    size = torch.rand(count, 2, generator=generator) * side / 4 + 1
    return (torch.cat((corner, corner + size), dim=1) * 4).round() / 4


def some_scores(count: int, seed: int) -> Tensor:
    """Scores with ties, among them negative ones and both zeros."""
    generator = torch.Generator().manual_seed(seed)
    scores = torch.randint(-20, 20, (count,), generator=generator) / 8
    scores[::5] *= -0.0
    return scores


@pytest.mark.parametrize(
    ("anchors", "boxes"), [(0, 3), (1, 1), (3, 0), (7, 2), (16, 5), (1000, 17), (5000, 1)]
)
@pytest.mark.parametrize("allow_low_quality", [False, True])
def test_matches_are_the_references(
    variant: str, anchors: int, boxes: int, allow_low_quality: bool
) -> None:
    arguments = some_boxes(anchors, 1), some_boxes(boxes, 2), 0.5, 0.4, allow_low_quality
    found = box_match(*arguments)
    assert found.dtype == torch.int64
    if anchors:  # the reference has no highest overlap among none
        assert torch.equal(found, reference.box_match(*arguments))
    else:
        assert found.shape == (0,)


@pytest.mark.parametrize("low_quality", [False, True])
def test_an_anchor_of_nan_is_background_and_changes_no_other(
    variant: str, low_quality: bool
) -> None:
    anchors, boxes = some_boxes(3000, 1), some_boxes(9, 2)
    expected = reference.box_match(anchors, boxes, 0.5, 0.4, low_quality)
    best_of_all = reference.box_iou(boxes, anchors).argmax(dim=1)
    strange = torch.arange(2999, 0, -17)
    strange = strange[~torch.isin(strange, best_of_all)]
    anchors[strange, 2] = math.nan
    expected[strange] = reference.BACKGROUND
    assert torch.equal(box_match(anchors, boxes, 0.5, 0.4, low_quality), expected)


@pytest.mark.parametrize("strange", [math.nan, -math.nan, math.inf, -math.inf])
def test_scores_that_are_not_finite_are_the_references(variant: str, strange: float) -> None:
    boxes, scores = some_boxes(300, 3), some_scores(300, 4)
    scores[::7] = strange
    scores[::70] *= -1
    assert torch.equal(nms(boxes, scores, 0.3), reference.nms(boxes, scores, 0.3))


def test_a_box_apart_ties_with_every_anchor(variant: str) -> None:
    anchors, apart = some_boxes(40, 1), torch.tensor([[900.0, 900.0, 950.0, 950.0]])
    boxes = torch.cat((some_boxes(3, 2), apart))
    found = box_match(anchors, boxes, 0.5, 0.4, True)
    assert torch.equal(found, reference.box_match(anchors, boxes, 0.5, 0.4, True))


@pytest.mark.parametrize("count", [0, 1, 7, 16, 33, 300, 900])
@pytest.mark.parametrize("threshold", [0.0, 0.3, 1.0])
def test_what_nms_keeps_is_the_references(variant: str, count: int, threshold: float) -> None:
    boxes, scores = some_boxes(count, 3), some_scores(count, 4)
    assert torch.equal(nms(boxes, scores, threshold), reference.nms(boxes, scores, threshold))


@pytest.mark.parametrize("count", [0, 1, 50, 1500])
def test_what_batched_nms_keeps_is_the_references(variant: str, count: int) -> None:
    boxes, scores = some_boxes(count, 3), some_scores(count, 4)
    labels = torch.arange(count) * 7 % 12
    found = batched_nms(boxes, scores, labels, 0.3)
    assert torch.equal(found, reference.batched_nms(boxes, scores, labels, 0.3))
    far_apart = labels * 2**40 - 2**42
    assert torch.equal(batched_nms(boxes, scores, far_apart, 0.3), found)


@few
@given(st.data())
def test_ties_and_touching_boxes(data: st.DataObject) -> None:
    corner = st.integers(0, 5)
    box = st.tuples(corner, corner, st.integers(1, 4), st.integers(1, 4))
    listed = data.draw(st.lists(box, min_size=1, max_size=40))
    boxes = torch.tensor([(x, y, x + w, y + h) for x, y, w, h in listed], dtype=torch.float32)
    numbers = st.lists(st.integers(0, 3), min_size=len(listed), max_size=len(listed))
    scores, labels = torch.tensor(data.draw(numbers)).float(), torch.tensor(data.draw(numbers))
    for threshold in (0.25, 0.5):
        found = batched_nms(boxes, scores, labels, threshold)
        assert torch.equal(found, reference.batched_nms(boxes, scores, labels, threshold))
        low = threshold / 2
        matched = box_match(boxes, boxes[:5], threshold, low, True)
        assert torch.equal(matched, reference.box_match(boxes, boxes[:5], threshold, low, True))


def test_any_strides(variant: str) -> None:
    boxes, scores = some_boxes(90, 3).t().contiguous().t()[::3], some_scores(90, 4)[::3]
    assert torch.equal(nms(boxes, scores, 0.3), reference.nms(boxes, scores, 0.3))
    matched = box_match(boxes, boxes[::2], 0.5, 0.4, True)
    assert torch.equal(matched, reference.box_match(boxes, boxes[::2], 0.5, 0.4, True))


def test_other_dtypes_and_thresholds_run_in_plain_torch() -> None:
    boxes, scores = some_boxes(20, 3).double(), some_scores(20, 4).double()
    assert torch.equal(nms(boxes, scores, 0.3), reference.nms(boxes, scores, 0.3))
    assert nms(boxes.float(), scores.float(), -1.0).shape == (1,)
    assert box_match(boxes, boxes, 0.5, 0.4, False).tolist() == list(range(20))


def test_shapes_that_are_no_boxes_are_refused() -> None:
    with pytest.raises(ValueError, match=r"boxes \[3, 5\]: expected \[N, 4\]"):
        nms(torch.zeros(3, 5), torch.zeros(3), 0.5)
    with pytest.raises(ValueError, match=r"boxes \[4\]"):
        box_match(torch.zeros(2, 4), torch.zeros(4), 0.5, 0.4, False)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_boxes_without_a_score_or_label_each_are_refused(dtype: torch.dtype) -> None:
    boxes, scores, labels = some_boxes(20, 1).to(dtype), torch.ones(20).to(dtype), torch.arange(20)
    with pytest.raises(ValueError, match=r"boxes \[20, 4\], scores \[1\]: expected"):
        nms(boxes, scores[:1], 0.5)
    with pytest.raises(ValueError, match=r"scores \[20, 1\]"):
        batched_nms(boxes, scores[:, None], labels, 0.5)
    with pytest.raises(ValueError, match=r"labels \[19\]"):
        batched_nms(boxes, scores, labels[1:], 0.5)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bool])
def test_labels_that_are_no_integers_are_refused(dtype: torch.dtype) -> None:
    with pytest.raises(ValueError, match=f"labels of {dtype}: expected integers"):
        batched_nms(some_boxes(3, 1), torch.ones(3), torch.ones(3, dtype=dtype), 0.5)


def test_the_number_of_threads_changes_nothing(variant: str) -> None:
    boxes, scores, labels = some_boxes(3000, 3), some_scores(3000, 4), torch.arange(3000) % 7
    usual = torch.get_num_threads()
    found = []
    try:
        for threads in (1, 3):
            torch.set_num_threads(threads)
            found.append(batched_nms(boxes, scores, labels, 0.3))
            found.append(box_match(boxes, boxes[:9], 0.5, 0.4, True))
    finally:
        torch.set_num_threads(usual)
    assert torch.equal(found[0], found[2])
    assert torch.equal(found[1], found[3])


def test_opcheck() -> None:
    boxes, scores = some_boxes(20, 3), some_scores(20, 4)
    opcheck(torch.ops.benchfarm.box_match.default, (boxes, boxes[:3], 0.5, 0.4, True))
    opcheck(torch.ops.benchfarm.nms.default, (boxes, scores, None, 0.5))
    opcheck(torch.ops.benchfarm.nms.default, (boxes, scores, torch.arange(20) % 3, 0.5))


def test_compiles_without_a_graph_break(monkeypatch: pytest.MonkeyPatch) -> None:
    # Sizes that depend on values are captured where torch is told to.
    monkeypatch.setattr(torch._dynamo.config, "capture_dynamic_output_shape_ops", True)
    boxes, scores = some_boxes(60, 3), some_scores(60, 4)

    def use(boxes: Tensor, scores: Tensor) -> tuple[Tensor, Tensor]:
        return nms(boxes * 2, scores, 0.3) + 1, box_match(boxes, boxes[:4], 0.5, 0.4, True)

    compiled = torch.compile(use, fullgraph=True, backend="aot_eager")
    for found, expected in zip(compiled(boxes, scores), use(boxes, scores), strict=True):
        assert torch.equal(found, expected)
