import torch

from models.retinanet.anchors import anchors_by_level
from models.retinanet.box_coder import encode
from models.retinanet.head import HeadOutputs
from models.retinanet.postprocess import detect

SIDE, CLASSES = 64, 7
LEVELS = anchors_by_level(SIDE, SIDE)
ANCHORS = torch.cat(LEVELS)


def silent(images: int) -> HeadOutputs:
    """Heads that score every class of every anchor just above 0.0001."""
    count = len(ANCHORS)
    return HeadOutputs(torch.full((images, count, CLASSES), -9.0), torch.zeros(images, count, 4))


def test_nothing_above_the_threshold_is_nothing_found() -> None:
    (found,) = detect(silent(images=1), LEVELS, (SIDE, SIDE))
    assert found.boxes.shape == (0, 4)
    assert found.scores.shape == found.labels.shape == (0,)


def test_planted_boxes_are_found_once_in_their_image() -> None:
    box = torch.tensor([[10.0, 12.0, 40.0, 50.0]])
    out = silent(images=2)
    for anchor, logit in ((30, 2.0), (31, 1.0), (400, 0.0)):  # three levels' say in one box
        out.cls_logits[1, anchor, 4] = logit
        out.bbox_regression[1, anchor] = encode(box, ANCHORS[anchor : anchor + 1])[0]
    out.cls_logits[1, 30, 2] = 1.5  # another class of the same anchor is not suppressed

    none, found = detect(out, LEVELS, (SIDE, SIDE))

    assert len(none.labels) == 0
    assert found.labels.tolist() == [4, 2]
    torch.testing.assert_close(found.scores, torch.tensor([2.0, 1.5]).sigmoid())
    # fp32 through log and exp, on coordinates up to 50.
    torch.testing.assert_close(found.boxes, box.expand(2, 4), rtol=0, atol=1e-4)


def test_boxes_are_clipped_to_the_image() -> None:
    out = silent(images=1)
    out.cls_logits[0, -1, 0] = 3.0  # an anchor of P7, far larger than the image

    (found,) = detect(out, LEVELS, (48, SIDE))

    assert found.boxes.tolist() == [[0, 0, SIDE, 48]]


def test_only_the_best_thousand_of_a_level_are_looked_at() -> None:
    pile, apart = 1000, 100
    corners = torch.arange(apart) * 10.0
    row = torch.stack((corners, torch.full_like(corners, 90), corners + 5, corners + 5), dim=1)
    row[:, 3] = 95
    anchors = torch.cat((torch.tensor([[0.0, 0, 50, 50]]).expand(pile, 4), row))
    logits = torch.cat((torch.full((pile,), 2.0), torch.full((apart,), 1.0))).reshape(1, -1, 1)
    out = HeadOutputs(logits, torch.zeros(1, pile + apart, 4))

    (found,) = detect(out, [anchors], (1000, 1000))

    assert found.boxes.tolist() == [[0, 0, 50, 50]]


def test_at_most_three_hundred_are_kept() -> None:
    corners = torch.arange(400) * 10.0
    anchors = torch.stack((corners, torch.zeros(400), corners + 5, torch.full((400,), 5.0)), dim=1)
    logits = torch.linspace(0, 4, 400).reshape(1, -1, 1)

    (found,) = detect(HeadOutputs(logits, torch.zeros(1, 400, 4)), [anchors], (10, 4000))

    torch.testing.assert_close(found.boxes, anchors.flip(0)[:300])
