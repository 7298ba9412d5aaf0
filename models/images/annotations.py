"""Boxes of images in COCO's JSON, which MLCommons' OpenImages subset has too. Pure.

What is kept, and what a label is, follows MLCommons' reference of the single-stage detector
(training/single_stage_detector/ssd/coco_utils.py): the label is the category's id.
"""

from __future__ import annotations

import math
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import PurePosixPath
from typing import Any, TypeGuard

import numpy as np
from numpy.typing import NDArray

LEAST_SIDE = 1.0
"""Pixels. An image whose boxes all have a side of at most this is left out, as in the reference."""
MOST_PIXELS = 2**31 - 1
"""Longest side of an image."""


class FieldWrong(ValueError):
    """A field of an annotation file that is missing or has an unusable value."""

    def __init__(self, field: str, why: str) -> None:
        super().__init__(f"{field}: {why}")
        self.field, self.why = field, why


@dataclass(frozen=True, slots=True, eq=False)
class Annotations:
    """Images and their boxes, in flat arrays: a training set has ten million boxes."""

    files: tuple[str, ...]
    """Path of each image in the folder of images."""
    places: tuple[int, ...]
    """Index of each image in the file's list `images`, for errors."""
    sizes: NDArray[np.int64]
    """[N, 2]: width and height, pixels."""
    boxes: NDArray[np.float32]
    """[M, 4]: x1, y1, x2, y2 in pixels, x1 < x2 and y1 < y2, inside the image; by image."""
    labels: NDArray[np.int64]
    """[M]: class of each box."""
    crowds: NDArray[np.bool_]
    """[M]: whether a box is around a crowd."""
    ends: NDArray[np.int64]
    """[N]: index after each image's last box."""

    def of(self, image: int) -> tuple[NDArray[np.float32], NDArray[np.int64]]:
        """Return boxes [n, 4] and labels [n] of an image."""
        own = self._own(image)
        return self.boxes[own], self.labels[own]

    def crowds_of(self, image: int) -> NDArray[np.bool_]:
        """Return whether each box of an image is around a crowd, [n]."""
        return self.crowds[self._own(image)]

    def _own(self, image: int) -> slice:
        return slice(int(self.ends[image - 1]) if image else 0, int(self.ends[image]))


@dataclass(frozen=True, slots=True)
class _Box:
    """An annotation as the file has it: left, top, width and height in pixels."""

    sides: tuple[float, float, float, float]
    label: int
    crowd: bool


def annotations_of(
    document: object, num_classes: int, *, crowds: bool, every_image: bool = False
) -> Annotations:
    """Return the images that have boxes.

    num_classes: labels are 0 to num_classes - 1.
    crowds: whether boxes around a crowd count, as the reference has it for OpenImages, not COCO.
    every_image: keep those without boxes, too, as the reference has it for validation.

    Raises FieldWrong.
    """
    images = _records(document, "images")
    boxes = _boxes_by_image(document, images, num_classes)
    kept = [n for n, image in enumerate(images) if _has_box(boxes[image["id"]])]
    if not kept:
        raise FieldWrong("annotations", f"none of the {len(images)} images has a box")
    if every_image:
        kept = list(range(len(images)))
    sizes = [_size(images[n], f"images[{n}]") for n in kept]
    clipped = [
        _clipped([box for box in boxes[images[n]["id"]] if crowds or not box.crowd], size)
        for n, size in zip(kept, sizes, strict=True)
    ]
    edges, labels, marks = (np.concatenate(each) for each in zip(*clipped, strict=True))
    return Annotations(
        files=tuple(_file(images[n], f"images[{n}]") for n in kept),
        places=tuple(kept),
        sizes=np.array(sizes, dtype=np.int64),
        boxes=edges,
        labels=labels,
        crowds=marks,
        ends=np.cumsum([len(each) for _, each, _ in clipped]),
    )


def _records(document: object, key: str) -> Sequence[Mapping[str, Any]]:
    """Return a list of objects of the document."""
    if not isinstance(document, Mapping):
        raise FieldWrong(key, "the document is no object")
    found = document.get(key)
    if not isinstance(found, list) or not found:
        seen = "it is missing" if key not in document else "it is no list, or empty"
        raise FieldWrong(key, seen)
    for number, record in enumerate(found):
        if not isinstance(record, Mapping):
            raise FieldWrong(f"{key}[{number}]", "it is no object")
        if not _is_whole(record.get("id")) and key != "annotations":
            raise FieldWrong(f"{key}[{number}].id", "it is missing, or no whole number")
    return found


def _boxes_by_image(
    document: object, images: Sequence[Mapping[str, Any]], num_classes: int
) -> dict[int, list[_Box]]:
    found: dict[int, list[_Box]] = {image["id"]: [] for image in images}
    if len(found) < len(images):
        raise FieldWrong("images", "two of them have one id")
    categories = {category["id"] for category in _records(document, "categories")}
    for number, record in enumerate(_records(document, "annotations")):
        field, image = f"annotations[{number}]", record.get("image_id")
        if not _is_whole(image) or image not in found:
            raise FieldWrong(f"{field}.image_id", f"{image!r:.40} is the id of no image")
        found[image].append(_box(record, field, categories, num_classes))
    return found


def _box(record: Mapping[str, Any], field: str, categories: set[int], num_classes: int) -> _Box:
    label, sides = record.get("category_id"), record.get("bbox")
    if not _is_whole(label) or label not in categories:
        raise FieldWrong(f"{field}.category_id", f"{label!r:.40} is the id of no category")
    if not 0 <= label < num_classes:
        raise FieldWrong(f"{field}.category_id", f"{label} is not one of 0 to {num_classes - 1}")
    if not isinstance(sides, list) or len(sides) != 4 or not all(map(_is_finite, sides)):
        raise FieldWrong(f"{field}.bbox", f"{sides!r:.60} is not four finite numbers")
    if sides[2] < 0 or sides[3] < 0:
        raise FieldWrong(f"{field}.bbox", f"its width or height is negative: {sides!r:.60}")
    left, top, width, height = map(float, sides)
    return _Box((left, top, width, height), label, bool(record.get("iscrowd")))


def _has_box(boxes: Sequence[_Box]) -> bool:
    return any(min(box.sides[2:]) > LEAST_SIDE for box in boxes)


def _size(image: Mapping[str, Any], field: str) -> tuple[int, int]:
    for side in ("width", "height"):
        value = image.get(side)
        if not _is_whole(value) or not 1 <= value <= MOST_PIXELS:
            raise FieldWrong(f"{field}.{side}", f"{value!r:.40} is no number of pixels")
    return image["width"], image["height"]


def _file(image: Mapping[str, Any], field: str) -> str:
    """Return the image's path; it must not lead out of the folder of images."""
    name = image.get("file_name")
    if not isinstance(name, str) or not name or "\0" in name or not _is_encodable(name):
        raise FieldWrong(f"{field}.file_name", f"{name!r:.60} is no file name")
    path = PurePosixPath(name)
    if path.is_absolute() or ".." in path.parts:
        raise FieldWrong(f"{field}.file_name", f"{name!r:.60} leads out of the folder of images")
    return name


def _clipped(
    boxes: Sequence[_Box], size: tuple[int, int]
) -> tuple[NDArray[np.float32], NDArray[np.int64], NDArray[np.bool_]]:
    """Return edges, labels and marks of crowds of the boxes that have an area inside the image."""
    edges = np.array([box.sides for box in boxes], dtype=np.float32).reshape(-1, 4)
    labels = np.array([box.label for box in boxes], dtype=np.int64)
    crowds = np.array([box.crowd for box in boxes], dtype=np.bool_)
    edges[:, 2:] += edges[:, :2]
    edges = np.clip(edges, 0, np.array(size * 2, dtype=np.float32))
    kept = (edges[:, 3] > edges[:, 1]) & (edges[:, 2] > edges[:, 0])
    return edges[kept], labels[kept], crowds[kept]


def _is_whole(value: object) -> TypeGuard[int]:
    return isinstance(value, int) and not isinstance(value, bool)


def _is_finite(value: object) -> bool:
    if isinstance(value, bool) or not isinstance(value, int | float):
        return False
    try:
        return math.isfinite(value)
    except OverflowError:  # a whole number beyond all floats
        return False


def _is_encodable(name: str) -> bool:
    """Return whether a file can have this name: no text with half a character has bytes."""
    try:
        os.fsencode(name)
    except UnicodeEncodeError:
        return False
    return True
