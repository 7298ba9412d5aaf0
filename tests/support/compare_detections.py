"""`python -m tests.support.compare_detections [CHECKPOINT CLASSES]`: detections of both RetinaNets.

Runs where torchvision is, as in the environment of stack ipex. Both load the same file, each in its
own way, and look at the same 50 images: noise alone, and objects that are tiny, huge, or cut off by
the border. Prints numbers of detections and the largest differences as JSON. Without a checkpoint,
a trained-looking one of ResNet-50 and 91 classes is made, in torchvision's old names.

Logits differ in their last bits. Where two boxes that overlap have the same score but for these,
each may suppress the other, and with it change what is kept of the image; and of two boxes of the
same score, either may be the last that an image may have. `unmatched` detections of images with
such a pair are `tied`. From the same logits nothing may differ: `unmatched_alone`.
"""

from __future__ import annotations

import json
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

import torch
from torch import Tensor
from torchvision.models.detection import RetinaNet, retinanet_resnet50_fpn
from torchvision.models.detection.backbone_utils import resnet_fpn_backbone
from torchvision.ops import box_iou
from torchvision.ops.feature_pyramid_network import LastLevelP6P7

from controller.contracts.base import Scalar
from models.retinanet.head import HeadOutputs
from models.retinanet.postprocess import DETECTIONS_PER_IMAGE, NMS_IOU, detection_rows
from models.retinanet.workload import RetinaNetTraining
from tests.support.checkpoints import detector
from tests.support.knobs import retinanet_arguments

SIDE, IMAGES = 256, 50
TIE = 1e-6
"""Scores nearer than this are equal: several units in the last place of an fp32 sigmoid."""


def scenes() -> Tensor:
    """Return 50 images [50, 3, S, S]."""
    generator = torch.Generator().manual_seed(5)
    images = torch.rand(IMAGES, 3, SIDE, SIDE, generator=generator) * 0.3

    def within(low: int, high: int) -> int:
        return int(torch.randint(low, high, (), generator=generator))

    for number, image in enumerate(images):
        kind = number % 5
        sides = {1: (4, 12), 2: (200, 256), 3: (40, 120), 4: (40, 120)}.get(kind)
        for _ in range(within(1, 6) if sides else 0):
            height, width = within(*sides or (1, 2)), within(*sides or (1, 2))
            top, left = within(0, SIDE - height + 1), within(0, SIDE - width + 1)
            if kind == 4:  # half of it is outside
                top, left = -height // 2, SIDE - width // 2
            colour = torch.rand(3, 1, 1, generator=generator)
            image[:, max(top, 0) : top + height, left : left + width] = colour
    return images


def theirs(path: Path, classes: int, backbone: str) -> RetinaNet:
    """Return torchvision's detector with the file loaded as torchvision does."""
    sizes = {"min_size": SIDE, "max_size": SIDE}
    if backbone == "resnet50":
        model = retinanet_resnet50_fpn(
            weights=None, weights_backbone=None, num_classes=classes, **sizes
        )
    else:
        body = resnet_fpn_backbone(
            backbone_name=backbone,
            weights=None,
            returned_layers=[2, 3, 4],
            extra_blocks=LastLevelP6P7(256, 256),
        )
        model = RetinaNet(body, classes, **sizes)
    model.load_state_dict(torch.load(path, weights_only=True))
    return model.eval()


class Compared:
    """How far the detections of two models are apart."""

    def __init__(self) -> None:
        self.detections = self.unmatched = self.tied = 0
        self.boxes_px = self.scores = 0.0

    def add(self, rows: Tensor, expected: Tensor) -> None:
        """Count one image's detections, as `detection_rows`."""
        pairs = matched(rows, expected)
        alone = [
            one[~torch.isin(torch.arange(len(one)), pairs[:, side])]
            for side, one in enumerate((rows, expected))
        ]
        unmatched = sum(map(len, alone))
        self.detections += len(expected)
        self.unmatched += unmatched
        is_tie = suppress_each_other(*alone) or are_last(rows, expected, *alone)
        self.tied += unmatched if is_tie else 0
        if len(pairs):
            apart = (rows[pairs[:, 0]] - expected[pairs[:, 1]]).abs()
            self.boxes_px = max(self.boxes_px, float(apart[:, :4].max()))
            self.scores = max(self.scores, float(apart[:, 5].max()))


@torch.no_grad()
def compare(path: Path, classes: int, backbone: str) -> dict[str, float]:
    """Return how far the detections of one file are apart."""
    knobs: dict[str, Scalar] = {"backbone": backbone, "num_classes": classes, "weights": str(path)}
    workload = RetinaNetTraining(**retinanet_arguments(image_size=SIDE, batch_size=1, **knobs))
    mine, reference = workload.build_model().eval(), theirs(path, classes, backbone)
    whole, alone = Compared(), Compared()
    images = scenes()
    levels = Levels.of(reference, images[0])  # all are of one size
    for image in images:
        outputs = mine(image[None])
        (rows,) = workload.answers(outputs)
        (told,) = reference([image])
        whole.add(rows, detection_rows(told["boxes"], told["labels"], told["scores"]))
        alone.add(rows, their_detections(reference, levels, outputs))
    return {**vars(whole), "unmatched_alone": alone.unmatched}


@dataclass(frozen=True, slots=True)
class Levels:
    """What torchvision's post-processing has to know of images of one size."""

    sizes: list[int]
    """Anchors of each level of the pyramid."""
    anchors: list[list[Tensor]]
    image_sizes: list[tuple[int, int]]

    @classmethod
    def of(cls, reference: RetinaNet, image: Tensor) -> Levels:
        images, _ = reference.transform([image])
        features = list(reference.backbone(images.tensors).values())
        sides = [feature.shape[-2] * feature.shape[-1] for feature in features]
        sizes = [side * reference.anchor_generator.num_anchors_per_location()[0] for side in sides]
        anchors = reference.anchor_generator(images, features)
        return cls(sizes, [list(torch.split(one, sizes)) for one in anchors], images.image_sizes)


def their_detections(reference: RetinaNet, levels: Levels, outputs: HeadOutputs) -> Tensor:
    """Return what torchvision's post-processing makes of our heads' outputs for one image."""
    by_level = {
        "cls_logits": list(torch.split(outputs.cls_logits, levels.sizes, dim=1)),
        "bbox_regression": list(torch.split(outputs.bbox_regression, levels.sizes, dim=1)),
    }
    (told,) = reference.postprocess_detections(by_level, levels.anchors, levels.image_sizes)
    return detection_rows(told["boxes"], told["labels"], told["scores"])


def suppress_each_other(rows: Tensor, expected: Tensor) -> bool:
    """Return whether a box of each, of one class and one score, overlaps the other's."""
    same_class = rows[:, None, 4] == expected[None, :, 4]
    same_score = (rows[:, None, 5] - expected[None, :, 5]).abs() < TIE
    overlap = box_iou(rows[:, :4], expected[:, :4]) > NMS_IOU
    return bool((same_class & same_score & overlap).any())


def are_last(rows: Tensor, expected: Tensor, *alone: Tensor) -> bool:
    """Return whether both have as many detections as an image may, and those that only one has are
    of its lowest score."""
    if not len(rows) == len(expected) == DETECTIONS_PER_IMAGE:
        return False
    lowest = torch.cat([one[:, 5] for one in (rows, expected)]).min()
    return bool((torch.cat(alone)[:, 5] - lowest < TIE).all())


def matched(rows: Tensor, expected: Tensor) -> Tensor:
    """Return the pairs [P, 2] of detections of one class whose boxes are within a pixel.

    Their order may differ where scores are equal to their last bits.
    """
    if not len(rows) or not len(expected):
        return torch.empty(0, 2, dtype=torch.long)
    apart = (rows[:, None, :4] - expected[None, :, :4]).abs().amax(2)
    apart += 100 * (rows[:, None, 5] - expected[None, :, 5]).abs()  # boxes may be equal
    apart += torch.where(rows[:, None, 4] == expected[None, :, 4], 0.0, torch.inf)
    number = torch.arange(len(expected))
    nearest = apart.argmin(0)
    mutual = (apart.argmin(1)[nearest] == number) & (apart[nearest, number] < 1)
    return torch.stack((nearest, number), dim=1)[mutual]


def main() -> None:
    if len(sys.argv) > 1:
        found = compare(Path(sys.argv[1]), int(sys.argv[2]), "resnext50_32x4d")
    else:
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "weights.pth"
            torch.save(detector("resnet50", 91, seed=7, old=True), path)
            found = compare(path, 91, "resnet50")
    sys.stdout.write(json.dumps(found) + "\n")


if __name__ == "__main__":
    main()
