"""ADE20K: images, and annotations of the same names whose pixels are class numbers.

An annotation is an image, or a file `.raw` of (height, width) bytes of the model's size.
"""

from __future__ import annotations

from pathlib import Path, PurePosixPath
from typing import Final

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from controller.contracts.mobile import ImageInput
from models.mobile.datasets.images import FittedImages, ImageFiles
from models.mobile.decoding import DECODED
from models.mobile.pixels import padded_classes

_RAW: Final = ".raw"


def load(samples: Path, truth: Path | None, wanted: ImageInput) -> FittedImages:
    """Return the images with their class maps; raises DatasetUnusable."""
    images = ImageFiles.of(samples)
    if truth is None:
        return FittedImages(images, wanted)
    annotations = read_annotations(truth)
    by_stem = annotations.of_stems()

    def classes_of(name: str) -> NDArray[np.uint8]:
        annotation = by_stem.get(PurePosixPath(name).stem)
        if annotation is None:
            raise annotations.unusable(f"it has no annotation of image {name}")
        if annotation.lower().endswith(_RAW):
            return _raw_classes(annotations, annotation, wanted)
        classes = _classes(annotations, annotation)
        own = (wanted.height, wanted.width)
        # A pair is of one size, unless one of both was brought to the model's before.
        if classes.shape != own:
            size = images.pixels(name, *own).shape[:2]
            if size not in (own, classes.shape):
                seen = (
                    f"image {annotation}: it is {_told(classes.shape)}, and its image {_told(size)}"
                )
                raise annotations.unusable(seen)
        return _fitted(classes, wanted)

    return FittedImages(images, wanted, classes_of)


def read_annotations(path: Path) -> ImageFiles:
    """Return the annotations of a folder or zip; raises DatasetUnusable if it has none."""
    return ImageFiles.of(path, "truth", (*DECODED, _RAW))


def _raw_classes(annotations: ImageFiles, name: str, wanted: ImageInput) -> NDArray[np.uint8]:
    found = np.frombuffer(annotations.read(name), np.uint8)
    if found.size != wanted.height * wanted.width:
        seen = f"its {found.size} bytes are no classes of {wanted.width}x{wanted.height} pixels"
        raise annotations.unusable(f"image {name}: {seen}")
    return found.reshape(wanted.height, wanted.width)


def _classes(annotations: ImageFiles, name: str) -> NDArray[np.uint8]:
    image = annotations.image(name, mode="")
    if image.mode not in ("L", "P"):
        raise annotations.unusable(f"image {name}: its mode is {image.mode}, not a byte a pixel")
    return np.asarray(image, dtype=np.uint8)


def _fitted(classes: NDArray[np.uint8], wanted: ImageInput) -> NDArray[np.uint8]:
    if wanted.fit == "pad":
        return padded_classes(classes, wanted.height, wanted.width)
    size = (wanted.width, wanted.height)
    return np.asarray(Image.fromarray(classes).resize(size, Image.Resampling.NEAREST))


def _told(size: tuple[int, ...]) -> str:
    return f"{size[1]}x{size[0]}"
