"""Pairs of images with equal names: a small one, and the expected upscaled one."""

from __future__ import annotations

from pathlib import Path, PurePosixPath

import numpy as np
from numpy.typing import NDArray

from controller.contracts.mobile import ImageInput
from models.mobile.datasets.images import FittedImages, ImageFiles


def load(samples: Path, truth: Path | None, wanted: ImageInput) -> FittedImages:
    """Return the small images with the large ones; raises DatasetUnusable."""
    images = ImageFiles.of(samples)
    if truth is None:
        return FittedImages(images, wanted)
    large = ImageFiles.of(truth, "truth")
    by_stem = {PurePosixPath(name).stem: name for name in large.names}

    def true_image(name: str) -> NDArray[np.uint8]:
        other = by_stem.get(PurePosixPath(name).stem)
        if other is None:
            raise large.unusable(f"it has no image of the name {name}")
        return np.asarray(large.read(other))

    return FittedImages(images, wanted, true_image)
