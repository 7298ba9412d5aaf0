"""ImageNet: a folder or zip of images, and a 0-based class number a line, in their order."""

from __future__ import annotations

from pathlib import Path

from controller.contracts.mobile import ImageInput
from models.mobile.datasets.images import FittedImages, ImageFiles, unusable


def load(samples: Path, truth: Path | None, wanted: ImageInput) -> FittedImages:
    """Return the images with their class numbers; raises DatasetUnusable."""
    images = ImageFiles.of(samples)
    if truth is None:
        return FittedImages(images, wanted)
    labels = _labels(truth)
    if len(labels) != len(images.names):
        seen = f"it has {len(labels)} labels for {len(images.names)} images"
        raise unusable(truth, "parts.truth", seen)
    label_of = dict(zip(images.names, labels, strict=True))
    return FittedImages(images, wanted, label_of.__getitem__)


def _labels(path: Path) -> list[int]:
    try:
        # A line may name its image before the number, as the original validation list does.
        return [int(line.split()[-1]) for line in path.read_text().splitlines() if line.strip()]
    except (OSError, ValueError) as error:
        raise unusable(path, "parts.truth", str(error)) from error
