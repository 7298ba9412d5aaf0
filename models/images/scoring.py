"""Images of a data set in its own order, with what is true of them, to score a detector by."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence

import torch
from torch import Tensor

from controller.contracts.result import Environment
from models.images.folder import ImageSet
from models.images.loading import ImageBatches, LoadSettings
from models.images.transforms import resized_boxes


class ScoredImages:
    """Resized images and their boxes, as MLCommons' reference validates with them.

    Args:
        source: opened with `scored`.
        settings: of their loading, which is by this process alone.

    Raises DataUnusable, and WorkerFault as `decoder`.
    """

    def __init__(self, source: ImageSet, settings: LoadSettings) -> None:
        self._source, self._size = source, settings.image_size
        self._images = ImageBatches(source, dataclasses.replace(settings, batch_size=1))

    def sample(self, number: int) -> Tensor:
        """Return an image [3, S, S] in 0..1; raises DataUnusable."""
        return self._images.image(number)

    def truths(self) -> Sequence[Mapping[str, object]]:
        """Return classes, boxes in pixels of the resized image, and crowds of each image.

        Resizing multiplies all areas of an image by one factor, so that overlaps stay as they are.
        """
        return [self._truth(number) for number in range(len(self._source.annotations.files))]

    def facts(self) -> Environment:
        """Return what the set is."""
        return self._source.facts()

    def _truth(self, number: int) -> Mapping[str, object]:
        annotations = self._source.annotations
        edges, labels = annotations.of(number)
        width, height = map(int, annotations.sizes[number])
        boxes = resized_boxes(torch.from_numpy(edges), width, height, self._size)
        return {
            "categories": labels.tolist(),
            "boxes": boxes[:, (1, 0, 3, 2)].tolist(),
            "size": (1, 1),  # boxes of answers are in pixels, too
            "areas": (boxes[:, 2:] - boxes[:, :2]).prod(dim=1).tolist(),
            "crowd": annotations.crowds_of(number).astype(int).tolist(),
        }
