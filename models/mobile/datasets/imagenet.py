"""ImageNet: a folder or zip of images, and a file with a 0-based class number a line, in their
order."""

from __future__ import annotations

from pathlib import Path, PurePosixPath

from controller.contracts.documents import short
from controller.contracts.mobile import ImageInput
from models.mobile.datasets.images import FittedImages, ImageFiles, unusable


def load(samples: Path, truth: Path | None, wanted: ImageInput) -> FittedImages:
    """Return the images with their class numbers; raises DatasetUnusable."""
    images = ImageFiles.of(samples)
    if truth is None:
        return FittedImages(images, wanted)
    labels = read_labels(truth)
    if len(labels) != len(images.names):
        seen = f"it has {len(labels)} labels for {len(images.names)} images"
        raise unusable(truth, "parts.truth", seen)
    for name, (said, _) in zip(images.names, labels, strict=True):
        if said and _stem(said) != _stem(name):
            raise unusable(truth, "parts.truth", f"it has {short(said)} in the place of {name}")
    label_of = dict(zip(images.names, (label for _, label in labels), strict=True))
    return FittedImages(images, wanted, label_of.__getitem__)


def read_labels(path: Path) -> list[tuple[str, int]]:
    """Return the class number of each line, and the name before it; raises DatasetUnusable.

    A line may name its image before the number, as the original validation list does.
    """
    try:
        lines = enumerate(path.read_text().splitlines(), 1)
        return [_label(number, line) for number, line in lines if line.strip()]
    except (OSError, ValueError) as error:
        raise unusable(path, "parts.truth", str(error)) from error


def _label(number: int, line: str) -> tuple[str, int]:
    *name, last = line.split()
    if not last.isdecimal():
        raise ValueError(f"line {number} ends with {short(last)}, and not with a class number")
    return " ".join(name), int(last)


def _stem(name: str) -> str:
    return PurePosixPath(name).stem
