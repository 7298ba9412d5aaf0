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
        return _classes(annotations, annotation, wanted)

    return FittedImages(images, wanted, classes_of)


def read_annotations(path: Path) -> ImageFiles:
    """Return the annotations of a folder or zip; raises DatasetUnusable if it has none."""
    return ImageFiles.of(path, "truth", (*DECODED, _RAW))


def _classes(annotations: ImageFiles, name: str, wanted: ImageInput) -> NDArray[np.uint8]:
    if name.lower().endswith(_RAW):
        found = np.frombuffer(annotations.read(name), np.uint8)
        if found.size != wanted.height * wanted.width:
            seen = f"its {found.size} bytes are no classes of {wanted.width}x{wanted.height} pixels"
            raise annotations.unusable(f"image {name}: {seen}")
        return found.reshape(wanted.height, wanted.width)
    image = annotations.image(name, mode="")  # class numbers, not colours
    image = image if image.mode in ("L", "P") else image.convert("L")
    size = (wanted.width, wanted.height)
    if wanted.fit == "pad":
        return padded_classes(np.asarray(image, dtype=np.uint8), wanted.height, wanted.width)
    if image.size != size:
        image = image.resize(size, Image.Resampling.NEAREST)
    return np.asarray(image, dtype=np.uint8)
