"""Small data sets of images with annotations, and ways to damage them."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image

from models.images.folder import open_set
from models.images.loading import ImageBatches, ImageLoader, LoadSettings

Document = dict[str, Any]
SIZES = ((64, 48), (48, 64), (80, 40), (64, 48))
"""Width and height of each image."""
PLAIN = LoadSettings(
    image_size=32,
    batch_size=2,
    seed=3,
    decoder="pillow",
    workers=0,
    prefetch=2,
    cache="none",
    timeout_s=60.0,
)


def document(images: int = 4) -> Document:
    """Return annotations: two boxes an image, of classes 0 and 1."""
    return {
        "images": [
            {"id": 10 + n, "file_name": f"{n}.jpg", "width": w, "height": h}
            for n, (w, h) in enumerate((SIZES * images)[:images])
        ],
        "categories": [{"id": 0, "name": "cat"}, {"id": 1, "name": "dog"}],
        "annotations": [
            {
                "id": 2 * n + label,
                "image_id": 10 + n,
                "category_id": label,
                "bbox": [4 + n, 8, 20, 10 + label],
                "iscrowd": 0,
            }
            for n in range(images)
            for label in (0, 1)
        ],
    }


def write(
    root: Path, name: str = "small", images: int = 4, change: Callable[[Document], object] = id
) -> Path:
    """Write a set into a host's folder of data; return the set's folder.

    change: changes the annotations.
    """
    told, numbers = document(images), np.random.default_rng(0)
    folder = root / name
    (folder / "images").mkdir(parents=True)
    for image in told["images"]:
        cells = numbers.integers(256, size=(6, 8, 3), dtype=np.uint8)
        picture = Image.fromarray(cells).resize((image["width"], image["height"]))
        picture.save(folder / "images" / image["file_name"], quality=95)
    change(told)
    (folder / "annotations.json").write_text(json.dumps(told))
    return folder


def batches(root: Path, **given: object) -> ImageBatches:
    """Return the batches of set `small`, by PLAIN but for what is given."""
    settings = dataclasses.replace(PLAIN, **given)  # type: ignore[arg-type]
    return ImageBatches(open_set("small", 2, root), settings)


@contextmanager
def loading(root: Path, **given: object) -> Iterator[ImageLoader]:
    """Load set `small`, likewise; its processes end with the context."""
    settings = dataclasses.replace(PLAIN, **given)  # type: ignore[arg-type]
    loader = ImageLoader(ImageBatches(open_set("small", 2, root), settings), settings)
    try:
        yield loader
    finally:
        loader.close()
