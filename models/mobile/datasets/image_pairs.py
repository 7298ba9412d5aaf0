"""Pairs of images with equal names: a small one, and the expected upscaled one."""

from __future__ import annotations

from pathlib import Path, PurePosixPath
from typing import Final

import numpy as np
from numpy.typing import NDArray

from controller.contracts.mobile import ImageInput
from models.mobile.datasets.images import FittedImages, ImageFiles

MOST_TIMES: Final = 4
"""Largest enlargement that is tried for a `.rgb8` image."""


def load(samples: Path, truth: Path | None, wanted: ImageInput) -> FittedImages:
    """Return the small images with the large ones; raises DatasetUnusable."""
    images = ImageFiles.of(samples)
    if truth is None:
        return FittedImages(images, wanted)
    large = ImageFiles.of(truth, "truth")
    by_stem = large.of_stems()

    def true_image(name: str) -> NDArray[np.uint8]:
        other = by_stem.get(PurePosixPath(name).stem)
        if other is None:
            raise large.unusable(f"it has no image of the name {name}")
        found = large.pixels(other, wanted.height, wanted.width, MOST_TIMES)
        height, width = found.shape[:2]
        if height % wanted.height or height * wanted.width != width * wanted.height:
            small = f"{wanted.width}x{wanted.height}"
            raise large.unusable(
                f"image {other}: it is {width}x{height}, no enlargement of {small}"
            )
        return found

    return FittedImages(images, wanted, true_image)
