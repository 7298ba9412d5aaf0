"""ADE20K: images, and annotations of the same names whose pixels are class numbers."""

from __future__ import annotations

from pathlib import Path, PurePosixPath

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from controller.contracts.mobile import ImageInput
from models.mobile.datasets.images import FittedImages, ImageFiles


def load(samples: Path, truth: Path | None, wanted: ImageInput) -> FittedImages:
    """Return the images with their class maps; raises DatasetUnusable."""
    images = ImageFiles.of(samples)
    if truth is None:
        return FittedImages(images, wanted)
    annotations = ImageFiles.of(truth, "truth")
    by_stem = {PurePosixPath(name).stem: name for name in annotations.names}
    size = (wanted.width, wanted.height)

    def classes_of(name: str) -> NDArray[np.uint8]:
        annotation = by_stem.get(PurePosixPath(name).stem)
        if annotation is None:
            raise annotations.unusable(f"it has no annotation of image {name}")
        found = annotations.read(annotation, mode="")  # class numbers, not colours
        found = found if found.mode in ("L", "P") else found.convert("L")
        if found.size != size:
            found = found.resize(size, Image.Resampling.NEAREST)
        return np.asarray(found, dtype=np.uint8)

    return FittedImages(images, wanted, classes_of)
