import math
from functools import partial

import pytest
import torch
from torch import Tensor

from kernels.reference.boxes import BACKGROUND, IGNORED
from models.retinanet import loss as losses
from models.retinanet.data import DetectionTarget
from models.retinanet.head import HeadOutputs
from models.retinanet.loss import (
    FOCAL_LOSSES,
    focal_loss_by_labels,
    reference_focal_loss,
    reference_matching,
)

# IoU with BOX: 1 (foreground), 0.45 (ignored), 0 (background).
ANCHORS = torch.tensor([[0.0, 0, 10, 20], [0, 0, 10, 9], [50, 50, 60, 60]])
BOX = torch.tensor([[0.0, 0, 10, 20]])
CLASSES = 3
detection_loss = partial(
    losses.detection_loss, focal_loss=reference_focal_loss, matching=reference_matching
)


def target(boxes: Tensor, *labels: int) -> DetectionTarget:
    return DetectionTarget(boxes, torch.tensor(labels, dtype=torch.int64))


NOTHING = target(torch.zeros(0, 4))


def outputs(images: int) -> HeadOutputs:
    generator = torch.Generator().manual_seed(5)
    logits = torch.randn(images, 3, CLASSES, generator=generator)
    regression = torch.randn(images, 3, 4, generator=generator)
    return HeadOutputs(logits.requires_grad_(), regression.requires_grad_())


def focal(logit: float, positive: bool) -> float:
    p = 1 / (1 + math.exp(-logit if positive else logit))
    return -(0.25 if positive else 0.75) * (1 - p) ** 2 * math.log(p)


def test_loss_by_hand() -> None:
    out = outputs(images=2)
    logits, offsets = out.cls_logits.tolist(), out.bbox_regression.tolist()
    # Image 0: anchor 0 is foreground of class 2 and its offsets ought to be 0; anchor 1 is ignored.
    one = sum(focal(x, label == 2) for label, x in enumerate(logits[0][0]))
    one += sum(focal(x, False) for x in logits[0][2])
    one += sum(abs(x) for x in offsets[0][0])
    # Image 1 has no boxes: all anchors are background.
    other = sum(focal(x, False) for anchor in logits[1] for x in anchor)

    loss = detection_loss(out, [target(BOX, 2), NOTHING], ANCHORS)

    assert loss.item() == pytest.approx((one + other) / 2, rel=1e-5)  # fp32 sums of 18 terms


def test_each_image_is_divided_by_its_foreground_anchors() -> None:
    out = outputs(images=1)
    twice = HeadOutputs(*(torch.cat((tensor, tensor), dim=1) for tensor in out))
    anchors = torch.cat((ANCHORS, ANCHORS))

    loss = detection_loss(twice, [target(BOX, 0)], anchors)

    torch.testing.assert_close(loss, detection_loss(out, [target(BOX, 0)], ANCHORS))


def test_gradients_reach_the_anchors_that_count() -> None:
    out = outputs(images=1)
    torch.autograd.backward(detection_loss(out, [target(BOX, 1)], ANCHORS))

    assert out.cls_logits.grad is not None
    assert out.bbox_regression.grad is not None
    assert out.cls_logits.grad.abs().sum(dim=2).bool().tolist() == [[True, False, True]]
    assert out.bbox_regression.grad.abs().sum(dim=2).bool().tolist() == [[True, False, False]]


def test_images_without_boxes_give_a_finite_loss_and_gradient() -> None:
    out = outputs(images=2)
    loss = detection_loss(out, [NOTHING, NOTHING], ANCHORS)
    torch.autograd.backward(loss)

    assert loss.isfinite()
    assert out.cls_logits.grad is not None
    assert out.cls_logits.grad.isfinite().all()


def test_bf16_outputs_are_widened_first() -> None:
    out = outputs(images=1)
    narrow = HeadOutputs(out.cls_logits.bfloat16(), out.bbox_regression.bfloat16())
    wide = HeadOutputs(narrow.cls_logits.float(), narrow.bbox_regression.float())

    loss = detection_loss(narrow, [target(BOX, 0)], ANCHORS)

    assert loss.dtype == torch.float32
    assert loss.item() == detection_loss(wide, [target(BOX, 0)], ANCHORS).item()


def test_loss_by_labels_is_the_definition_and_so_is_its_gradient() -> None:
    """In bf16 the logits are the same 8 bits to both, and each gradient is rounded to as many."""
    generator = torch.Generator().manual_seed(9)
    values = 4 * torch.randn(40, 7, generator=generator)
    classes = torch.randint(-2, 7, (40,), generator=generator)
    assert {BACKGROUND, IGNORED} < set(classes.tolist())
    for dtype, tolerance in ((torch.float32, 1e-5), (torch.bfloat16, 2**-7)):
        found = []
        for focal_loss in (reference_focal_loss, focal_loss_by_labels):
            logits = values.to(dtype, copy=True).requires_grad_()
            loss = focal_loss(logits, classes)
            torch.autograd.backward(0.37 * loss)
            assert logits.grad is not None
            assert not logits.grad[classes == IGNORED].any()
            found.append((loss.detach(), logits.grad))
        (truth, gradients), (loss, own) = found
        torch.testing.assert_close(loss, truth, rtol=1e-5, atol=0)
        torch.testing.assert_close(own, gradients, rtol=tolerance, atol=1e-6)


@pytest.mark.parametrize("name", FOCAL_LOSSES)
def test_what_is_left_out_of_the_loss_may_be_anything(name: str) -> None:
    """A row that is ignored made the loss by labels NaN."""
    classes = torch.tensor([BACKGROUND, *[IGNORED] * 3, 1])
    found = []
    for odd in (0.0, math.nan, math.inf, -math.inf):
        logits = torch.tensor([[0.5, -1.0], [odd, 0.0], [0.0, odd], [odd, odd], [-2.0, 20.0]])
        logits.requires_grad_()
        loss = FOCAL_LOSSES[name](logits, classes)
        torch.autograd.backward(loss)
        assert logits.grad is not None
        assert not logits.grad[classes == IGNORED].any()
        found.append((loss.item(), logits.grad.tolist()))
    assert all(one == found[0] for one in found)
