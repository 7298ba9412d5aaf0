"""A data set of JPEGs of real size, made by the project: what loading costs, without a download.

Its images show nothing, so that no model learns from them. Decoding costs what their pixels and
bytes cost, and these are those of OpenImages: the longer side has 1024 pixels, and a file has about
300 kB (its training set: 513 GB in 1,743,042 files).
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from controller.platform.atomic import replacing_folder
from models.images.statistics import draw_boxes

MADE: Final = "made"
"""Value of the knob `data`."""
IMAGES: Final = 64
RELEASE: Final = 1
"""Changes with what is made, as another content must not have the same name."""
SIZES: Final = ((1024, 768), (1024, 683), (768, 1024), (683, 1024))
"""Width and height, in turn."""
QUALITY: Final = 90
OCTAVES: Final = ((8, 60.0), (32, 25.0), (128, 12.0), (512, 17.0))
"""Cells along the longer side of each layer of noise, and its standard deviation of 255."""


def made_name(num_classes: int) -> str:
    """Return the folder of the set with labels of so many classes."""
    return f"{MADE}-{RELEASE}-{num_classes}-classes"


def ensure_made(root: Path, num_classes: int, images: int = IMAGES) -> str:
    """Make the set inside a host's folder of data, unless it is there; return its name.

    Raises OSError.
    """
    name = made_name(num_classes)
    if (root / name).is_dir():
        return name
    root.mkdir(parents=True, exist_ok=True)
    with replacing_folder(root / name) as folder:  # by the same content if another run was first
        write_set(folder, num_classes, images)
    return name


def write_set(folder: Path, num_classes: int, images: int) -> None:
    """Write annotations and images, the same ones for the same arguments."""
    numbers = np.random.default_rng(RELEASE)
    (folder / "images").mkdir()
    told: list[dict[str, Any]] = []
    annotations: list[dict[str, Any]] = []
    for number in range(images):
        width, height = SIZES[number % len(SIZES)]
        file = f"{number:06}.jpg"
        picture = Image.fromarray(_noise(numbers, width, height))
        picture.save(folder / "images" / file, quality=QUALITY)
        told.append({"id": number, "file_name": file, "width": width, "height": height})
        boxes, labels = draw_boxes(numbers, width, height, num_classes)
        annotations += [
            _annotation(number, box, label)
            for box, label in zip(boxes.tolist(), labels.tolist(), strict=True)
        ]
    for number, annotation in enumerate(annotations):
        annotation["id"] = number
    document = {
        "images": told,
        "categories": [{"id": n, "name": f"class {n}"} for n in range(num_classes)],
        "annotations": annotations,
    }
    (folder / "annotations.json").write_text(json.dumps(document))


def _annotation(image: int, box: list[float], label: int) -> dict[str, Any]:
    x1, y1, x2, y2 = box
    sides = [x1, y1, x2 - x1, y2 - y1]
    return {
        "image_id": image,
        "category_id": label,
        "bbox": sides,
        "area": sides[2] * sides[3],
        "iscrowd": 0,
    }


def _noise(numbers: np.random.Generator, width: int, height: int) -> NDArray[np.uint8]:
    """Return pixels [H, W, 3] with detail at several scales, as photographs have it."""
    total = np.full((height, width, 3), 128, np.float32)
    for cells, deviation in OCTAVES:
        columns = max(2, cells * width // max(width, height))
        rows = max(2, cells * height // max(width, height))
        for channel in range(3):
            layer = numbers.normal(0, deviation, (rows, columns)).astype(np.float32)
            smooth = Image.fromarray(layer).resize((width, height), Image.Resampling.BICUBIC)
            total[:, :, channel] += np.asarray(smooth)
    return total.clip(0, 255).astype(np.uint8)
