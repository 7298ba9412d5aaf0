"""Batches of noise in memory whose boxes are as many and as large as those of real images."""

from __future__ import annotations

from typing import Final

import numpy as np
import torch

from models.images.statistics import draw_boxes
from models.retinanet.data import DISTINCT_BATCHES, DetectionBatch, DetectionTarget

SYNTHETIC: Final = "synthetic"
"""Value of the knob `data`."""


class SyntheticImages:
    """A few batches, made on construction and cycled through.

    Args:
        image_size: side of the square images in pixels.
        batch_size: images in a batch.
        num_classes: labels are 0 to num_classes - 1.
        seed: of all batches.
    """

    def __init__(self, image_size: int, batch_size: int, num_classes: int, seed: int) -> None:
        self._batches = [
            _batch(np.random.default_rng((seed, place)), image_size, batch_size, num_classes)
            for place in range(DISTINCT_BATCHES)
        ]

    def batch(self, step: int) -> DetectionBatch:
        """Return the batch of a step; every fourth step has the same one."""
        return self._batches[step % DISTINCT_BATCHES]


def _batch(
    numbers: np.random.Generator, image_size: int, batch_size: int, num_classes: int
) -> DetectionBatch:
    shape = (batch_size, 3, image_size, image_size)
    images = torch.from_numpy(numbers.random(shape, np.float32))
    targets = []
    for _ in range(batch_size):
        boxes, labels = draw_boxes(numbers, image_size, image_size, num_classes)
        targets.append(DetectionTarget(torch.from_numpy(boxes), torch.from_numpy(labels)))
    return DetectionBatch(images, tuple(targets))
