"""Synthetic detection data: the shapes and box counts of OpenImages without its images."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

DISTINCT_BATCHES = 4
"""Number of batches, made in advance and cycled through."""

MAX_BOXES = 16
"""1 to 16 boxes an image: 8.5 on average, where OpenImages V4 has about 8."""

MIN_SIDE, MAX_SIDE = 0.05, 0.8
"""Bounds of a box's sides as fractions of the image's."""


@dataclass(frozen=True, slots=True, eq=False)
class DetectionTarget:
    """Ground truth of one image."""

    boxes: Tensor
    """[N, 4]: x1, y1, x2, y2 in pixels, x1 < x2 and y1 < y2, inside the image."""

    labels: Tensor
    """[N] int64, class of each box."""


@dataclass(frozen=True, slots=True, eq=False)
class DetectionBatch:
    """Images of one size with their ground truth."""

    images: Tensor
    """[B, 3, S, S] fp32 in 0..1."""

    targets: tuple[DetectionTarget, ...]


class SyntheticDetectionData:
    """A few batches of noise with random boxes, made on construction.

    Made in advance so that a timed step measures training, not the making of data. A batch is a
    function of the arguments and of its place in the pool, nothing else.

    Args:
        image_size: side of the square images in pixels.
        batch_size: images in a batch.
        num_classes: labels are 0 to num_classes - 1.
        seed: of all batches.
    """

    def __init__(self, image_size: int, batch_size: int, num_classes: int, seed: int) -> None:
        self._batches = [
            _make_batch(image_size, batch_size, num_classes, seed * DISTINCT_BATCHES + place)
            for place in range(DISTINCT_BATCHES)
        ]

    def batch(self, step: int) -> DetectionBatch:
        """Return the batch of a step; every fourth step has the same one."""
        return self._batches[step % DISTINCT_BATCHES]


def _make_batch(image_size: int, batch_size: int, num_classes: int, seed: int) -> DetectionBatch:
    generator = torch.Generator().manual_seed(seed)
    images = torch.rand(batch_size, 3, image_size, image_size, generator=generator)
    targets = tuple(_make_target(image_size, num_classes, generator) for _ in range(batch_size))
    return DetectionBatch(images, targets)


def _make_target(image_size: int, num_classes: int, generator: torch.Generator) -> DetectionTarget:
    count = int(torch.randint(1, MAX_BOXES + 1, (), generator=generator))
    side = MIN_SIDE + (MAX_SIDE - MIN_SIDE) * torch.rand(count, 2, generator=generator)
    corner = torch.rand(count, 2, generator=generator) * (1 - side)
    boxes = torch.cat((corner, corner + side), dim=1) * image_size
    labels = torch.randint(num_classes, (count,), generator=generator)
    return DetectionTarget(boxes, labels)
