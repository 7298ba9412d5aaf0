"""Compiled post-processing, every variant of it, against the reference."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import pytest
import torch
from torch import Tensor
from torch.library import opcheck

from kernels.ops.detection_postprocess import detection_postprocess, logit_of
from kernels.reference import detection as reference
from kernels.reference.detection import Detections

SIZES = (900, 230, 70)
CLASSES = 13
IMAGE = (480, 640)


@dataclass(frozen=True)
class Outputs:
    cls_logits: Tensor
    bbox_regression: Tensor
    anchors: Tensor


def outputs(mean: float, dtype: torch.dtype = torch.float32, seed: int = 0) -> Outputs:
    """Random heads over random anchors, some of them beyond the image."""
    generator = torch.Generator().manual_seed(seed)
    count = sum(SIZES)
    corner = torch.rand(count, 2, generator=generator) * 600 - 50
    size = torch.rand(count, 2, generator=generator) * 90 + 5
    logits = torch.randn(count, CLASSES, generator=generator) + mean
    offsets = torch.randn(count, 4, generator=generator) * 0.5
    offsets[::50] *= 20  # beyond the largest scale
    anchors = torch.cat((corner, corner + size), dim=1)
    return Outputs(logits.to(dtype), offsets.to(dtype), anchors)


def both(of: Outputs, **options: float) -> tuple[Detections, Detections]:
    given = of.cls_logits, of.bbox_regression, of.anchors, SIZES, IMAGE
    return (
        detection_postprocess(*given, **options),  # type: ignore[arg-type]
        reference.detection_postprocess(*given, **options),  # type: ignore[arg-type]
    )


def by_class(found: Detections) -> Detections:
    """Order by class and, within it, by score: scores an ulp apart may swap between classes."""
    order = found.scores.argsort(descending=True, stable=True)
    order = order[found.labels[order].argsort(stable=True)]
    return Detections(found.boxes[order], found.scores[order], found.labels[order])


def assert_same(found: Detections, expected: Detections) -> None:
    assert torch.equal(found.scores, found.scores.sort(descending=True)[0])
    found, expected = by_class(found), by_class(expected)
    assert torch.equal(found.labels, expected.labels)
    # exp of two libraries: an ulp of the score, and of a side of up to 640 pixels.
    torch.testing.assert_close(found.scores, expected.scores, rtol=1e-6, atol=0)
    torch.testing.assert_close(found.boxes, expected.boxes, rtol=1e-6, atol=1e-3)


@pytest.mark.parametrize(("mean", "least"), [(-20.0, 0), (-5.5, 20), (-3.0, 200), (0.0, 300)])
def test_detections_are_the_references(variant: str, mean: float, least: int) -> None:
    found, expected = both(outputs(mean))
    assert len(found.labels) >= least
    assert found.boxes.shape == (len(found.labels), 4)
    assert_same(found, expected)


def test_bf16_is_read_as_it_is(variant: str) -> None:
    # bf16 has few distinct scores: ties would come in another order without equal boxes.
    of = outputs(-4.0, torch.bfloat16)
    found, expected = both(of, candidates_per_level=100_000, iou_threshold=1.0, detections=100_000)
    assert len(found.labels) == len(expected.labels) > 100
    torch.testing.assert_close(found.scores, expected.scores, rtol=1e-6, atol=0)
    pairs = [
        sorted(zip(d.scores.double().round(decimals=5).tolist(), d.labels.tolist(), strict=True))
        for d in (found, expected)
    ]
    assert pairs[0] == pairs[1]


@pytest.mark.parametrize(
    "options",
    [
        {"score_threshold": 0.3},
        {"score_threshold": 0.0, "candidates_per_level": 50},
        {"score_threshold": 1.0},
        {"score_threshold": -1.0, "candidates_per_level": 50},
        {"iou_threshold": 0.1},
        {"iou_threshold": 0.0},
        {"detections": 7},
        {"detections": 0},
        {"candidates_per_level": 1},
    ],
)
def test_options_are_the_references(variant: str, options: dict[str, float]) -> None:
    assert_same(*both(outputs(-2.0, seed=1), **options))


@pytest.mark.parametrize("threshold", [-1.0, 0.0, 1e-40])
def test_scores_that_round_to_nothing_are_the_references(variant: str, threshold: float) -> None:
    """Beyond any threshold of logits: these scores are 0, or what torch makes of so small ones."""
    apart = torch.arange(4.0)[:, None] * 20 + torch.tensor([0.0, 0, 10, 10])
    logits = torch.tensor([[1.0], [-91.0], [-200.0], [-math.inf]])
    found, expected = (
        function(logits, torch.zeros(4, 4), apart, [4], IMAGE, score_threshold=threshold)
        for function in (detection_postprocess, reference.detection_postprocess)
    )
    assert_same(found, expected)


def test_nan_and_infinite_offsets_are_the_references(variant: str) -> None:
    strange = (math.nan, math.inf, -math.inf)
    apart = torch.arange(12.0)[:, None] * 20 + torch.tensor([0.0, 0, 10, 10])
    offsets = torch.zeros(12, 4)
    for row, value in enumerate(strange * 4):
        offsets[row, row // 3] = value
    logits = torch.linspace(3, 1, 12)[:, None]  # no ties: all come in this order
    found, expected = (
        function(logits, offsets, apart, [12], IMAGE)
        for function in (detection_postprocess, reference.detection_postprocess)
    )
    assert expected.boxes.isnan().any()
    # exp of two libraries: an ulp of a side.
    torch.testing.assert_close(found.boxes, expected.boxes, rtol=1e-6, atol=1e-4, equal_nan=True)


def test_offsets_keep_their_precision_beside_coarser_logits(variant: str) -> None:
    of, coarse = outputs(-3.0), outputs(-3.0, torch.bfloat16)
    found, expected = both(replace(coarse, bbox_regression=of.bbox_regression))
    assert torch.equal(found.boxes, expected.boxes)
    assert torch.equal(found.scores, expected.scores)


@pytest.mark.parametrize("limit", [10**12, 10**30])
def test_limits_beyond_what_there_is_limit_nothing(variant: str, limit: int) -> None:
    of = outputs(-4.0)
    everything = both(of, candidates_per_level=of.cls_logits.numel(), detections=20_000)[1]
    given = of.cls_logits, of.bbox_regression, of.anchors, SIZES, IMAGE
    found = detection_postprocess(*given, candidates_per_level=limit, detections=limit)
    assert_same(found, everything)


@pytest.mark.parametrize("option", ["candidates_per_level", "detections"])
def test_negative_limits_are_refused(option: str) -> None:
    with pytest.raises(ValueError, match=f"{option} -1.*: expected 0 or more"):
        both(outputs(-3.0), **{option: -1})


def test_a_negative_threshold_of_overlap_runs_in_plain_torch() -> None:
    found, expected = both(outputs(-3.0), iou_threshold=-1.0)
    assert_same(found, expected)


def test_empty_levels_and_no_levels(variant: str) -> None:
    nothing = detection_postprocess(
        torch.zeros(0, CLASSES), torch.zeros(0, 4), torch.zeros(0, 4), [0, 0], IMAGE
    )
    assert nothing.boxes.shape == (0, 4)


def test_equal_scores_may_come_in_any_order_but_all_come(variant: str) -> None:
    apart = torch.arange(40.0)[:, None] * 10 + torch.tensor([0.0, 0, 5, 5])
    found = detection_postprocess(
        torch.full((40, 1), 30.0), torch.zeros(40, 4), apart, [40], (500, 500)
    )
    assert found.scores.tolist() == [1.0] * 40
    assert sorted(found.boxes[:, 0].tolist()) == apart[:, 0].tolist()


def test_strides_and_gradients_do_not_matter(variant: str) -> None:
    of = outputs(-3.0)
    strided = Outputs(
        of.cls_logits.t().contiguous().t().requires_grad_(),
        of.bbox_regression.repeat_interleave(2, 0)[::2],
        of.anchors.flip(0).flip(0),
    )
    found, _ = both(strided)
    assert_same(found, both(of)[0])
    assert not found.scores.requires_grad


def test_sizes_that_do_not_fit_are_refused() -> None:
    of = outputs(-3.0)
    for sizes in ([*SIZES[:2], 71], [*SIZES, -1, 1]):
        with pytest.raises(ValueError, match=rf"expected \[{sum(sizes)}, C\]"):
            detection_postprocess(of.cls_logits, of.bbox_regression, of.anchors, sizes, IMAGE)


@pytest.mark.parametrize("field", ["cls_logits", "bbox_regression", "anchors"])
def test_arrays_that_do_not_fit_are_refused(field: str) -> None:
    of = outputs(-3.0)
    part = getattr(of, field)
    for wrong in (part[:, 0], part[1:], part[:, :1] if field != "cls_logits" else part[None]):
        bad = replace(of, **{field: wrong})
        with pytest.raises(ValueError, match="expected"):
            detection_postprocess(bad.cls_logits, bad.bbox_regression, bad.anchors, SIZES, IMAGE)


def test_an_image_has_two_sides(variant: str) -> None:
    of = outputs(-3.0)
    with pytest.raises(ValueError, match="unpack"):
        detection_postprocess(
            of.cls_logits,
            of.bbox_regression,
            of.anchors,
            SIZES,
            (480, 640, 3),  # type: ignore[arg-type]
        )


@pytest.mark.parametrize("probability", [1e-6, 0.05, 0.5, 0.999])
def test_logit_is_the_inverse_of_sigmoid(probability: float) -> None:
    logit = torch.tensor(logit_of(probability), dtype=torch.float64)
    assert logit.sigmoid().item() == pytest.approx(probability, rel=1e-12)


def test_opcheck() -> None:
    of = outputs(-3.0)
    settings = [*SIZES], [*IMAGE], -3.0, 50, 0.5, 20
    opcheck(
        torch.ops.benchfarm.detection_postprocess.default,
        (of.cls_logits, of.bbox_regression, of.anchors, *settings),
    )
