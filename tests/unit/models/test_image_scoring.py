"""What RetinaNet is scored by on image files: truths in the pixels that it answers in."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
import torch

from controller.contracts.base import Scalar
from models.images.errors import DataUnusable
from models.inference import ScoredWorkload
from models.mobile.metrics import score
from models.retinanet.data import DetectionBatch
from models.retinanet.images import RetinaNetImages
from models.retinanet.postprocess import detection_rows
from tests.support.image_sets import SIZES, Document, batches, write
from tests.support.knobs import workload_arguments

SIDE = 96


def images(root: Path, **given: Scalar) -> RetinaNetImages:
    small = {"image_size": SIDE, "num_classes": 2, "data": "small", **given}
    return RetinaNetImages(**workload_arguments("retinanet_images", **small), root=root)


def quality_of(workload: RetinaNetImages, change: Callable[[torch.Tensor], torch.Tensor]) -> float:
    """Return the mAP of answers that are the truths, but for a change to boxes [N, 4]."""
    answers = {}
    for number, truth in enumerate(workload.truths()):
        edges = torch.tensor(truth["boxes"]).reshape(-1, 4)[:, (1, 0, 3, 2)]
        labels = torch.tensor(truth["categories"], dtype=torch.int64)
        found = detection_rows(change(edges), labels, torch.full((len(labels),), 0.9))
        answers[number] = found.numpy().tobytes()
    return score(workload.output, answers, workload.truths())["mAP"].value


def test_truths_are_in_pixels_of_the_resized_image(tmp_path: Path) -> None:
    write(tmp_path)
    workload = images(tmp_path)
    assert isinstance(workload, ScoredWorkload)
    truths = workload.truths()
    assert len(truths) == 4
    width, height = SIZES[1]
    # A box of the second image begins at (5, 8) and is 20 wide and 10 high.
    wanted = [8 * SIDE / height, 5 * SIDE / width, 18 * SIDE / height, 25 * SIDE / width]
    boxes = truths[1]["boxes"]
    assert isinstance(boxes, list)
    assert boxes[0] == pytest.approx(wanted)
    assert truths[1]["categories"] == [0, 1]
    assert truths[1]["crowd"] == [0, 0]
    facts = workload.data_facts()
    assert (facts["data_images"], facts["data_boxes"]) == (4, 8)


def test_a_sample_is_the_image_of_a_batch_and_never_mirrored(tmp_path: Path) -> None:
    write(tmp_path)
    workload, loaded = images(tmp_path), batches(tmp_path, image_size=SIDE)
    seen = set()
    for step in range(8):
        batch = loaded[step]
        assert isinstance(batch, DetectionBatch)
        for number, image in zip(loaded.numbers(step), batch.images, strict=True):
            sample = workload.sample(number)
            assert sample.shape == (3, SIDE, SIDE)
            mirrored = not torch.equal(sample, image)
            assert torch.equal(sample.flip(-1) if mirrored else sample, image)
            seen.add(mirrored)
    assert seen == {False, True}


@pytest.mark.parametrize("data", ["small", "synthetic"])
def test_a_backbone_sees_images_that_are_normalised_once(data: str, tmp_path: Path) -> None:
    write(tmp_path)
    workload, seen = images(tmp_path, data=data), list[torch.Tensor]()
    model = workload.build_model().eval()
    model.backbone.register_forward_pre_hook(lambda _, given: seen.append(given[0]))
    batch = workload.batch(0)
    assert isinstance(batch, DetectionBatch)
    with torch.inference_mode():
        workload.forward(model, batch)
        model(*workload.arguments(workload.samples(1)))
        if data == "small":
            model(*workload.arguments(workload.sample(0)[None]))
    # ImageNet's mean and deviation, red first: the reference's image_mean and image_std.
    mean = torch.tensor([0.485, 0.456, 0.406]).view(3, 1, 1)
    deviation = torch.tensor([0.229, 0.224, 0.225]).view(3, 1, 1)
    for images_seen in seen:
        values = images_seen * deviation + mean
        assert -1e-6 <= values.min() < 0.3, "pixels from dark"
        assert 0.7 < values.max() <= 1 + 1e-6, "to bright"


def test_the_truth_scores_1_and_boxes_of_another_size_less(tmp_path: Path) -> None:
    write(tmp_path)
    workload = images(tmp_path)
    assert quality_of(workload, lambda boxes: boxes) == 1
    width, height = SIZES[0]
    unscaled = torch.tensor([width, height] * 2) / SIDE
    assert quality_of(workload, lambda boxes: boxes * unscaled) < 0.2


def empty_and_crowded(told: Document) -> None:
    """Leave the first image without a box, and make one of the second's boxes a crowd."""
    told["annotations"] = [one for one in told["annotations"] if one["image_id"] != 10]
    told["annotations"][0]["iscrowd"] = 1


def test_images_without_boxes_and_crowds_count_as_in_validation(tmp_path: Path) -> None:
    write(tmp_path, change=empty_and_crowded)
    workload = images(tmp_path)
    truths = workload.truths()
    assert [truth["categories"] for truth in truths] == [[], [0, 1], [0, 1], [0, 1]]
    assert truths[1]["crowd"] == [1, 0]
    assert quality_of(workload, lambda boxes: boxes) == 1, "a crowd is neither right nor wrong"
    loaded = workload.loader
    assert loaded is not None
    assert (loaded.facts()["data_images"], loaded.facts()["data_boxes"]) == (3, 5), "in training"


@pytest.mark.parametrize("data", ["synthetic", "made"])
def test_images_that_show_nothing_have_no_truths(data: str, tmp_path: Path) -> None:
    workload = images(tmp_path, data=data)
    assert workload.truths() == ()
    assert workload.data_facts() == {}
    assert list(tmp_path.iterdir()) == [], "nothing is made for it"


def test_a_damaged_image_is_named_when_it_is_loaded(tmp_path: Path) -> None:
    damaged = write(tmp_path) / "images" / "2.jpg"
    damaged.write_bytes(b"no image")
    workload = images(tmp_path)
    with pytest.raises(DataUnusable, match=r"2\.jpg: images\[2\]\.file_name of annotations\.json"):
        workload.sample(2)
