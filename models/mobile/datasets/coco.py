"""COCO: images, and boxes from the original JSON or from the suite's text file (`.pbtxt`).

A truth is `{"image_id", "categories": [id, …], "boxes": [[top, left, bottom, right], …]}` with
edges as fractions of the image; from the original JSON also `"areas"` and `"crowd"` of each box.
"""

from __future__ import annotations

from collections import defaultdict
from pathlib import Path, PurePosixPath
from typing import Any

from google.protobuf import text_format

from controller.contracts.documents import load_json, read_limited
from controller.contracts.mobile import ImageInput
from models.mobile.datasets import messages
from models.mobile.datasets.images import MAX_TRUTH_BYTES, FittedImages, ImageFiles, unusable

Truth = dict[str, Any]
_BROKEN = (OSError, ValueError, KeyError, TypeError, ArithmeticError, text_format.ParseError)
"""Errors of reading a file with other content."""


def load(samples: Path, truth: Path | None, wanted: ImageInput) -> FittedImages:
    """Return the images with their boxes; raises DatasetUnusable."""
    images = ImageFiles.of(samples)
    if truth is None:
        return FittedImages(images, wanted)
    known = read_truths(truth)

    def truth_of(name: str) -> Truth:
        path = PurePosixPath(name)
        # The truths name the original, also of an image in another form, such as `.rgb8`.
        found = known.get(path.name) or known.get(path.with_suffix(".jpg").name)
        if found is None:
            raise unusable(truth, "parts.truth", f"it has nothing of image {name}")
        return found

    return FittedImages(images, wanted, truth_of)


def read_truths(path: Path) -> dict[str, Truth]:
    """Return the truth of each image by file name; raises DatasetUnusable."""
    try:
        text = read_limited(path, MAX_TRUTH_BYTES).decode()
        return _of_json(text) if text.lstrip().startswith("{") else _of_pbtxt(text)
    except _BROKEN as error:
        raise unusable(path, "parts.truth", repr(error)) from error


def _of_json(text: str) -> dict[str, Truth]:
    document = load_json(text, MAX_TRUTH_BYTES)
    boxes: defaultdict[int, list[dict[str, Any]]] = defaultdict(list)
    for annotation in document["annotations"]:
        boxes[annotation["image_id"]].append(annotation)
    return {
        image["file_name"]: _truth(image["id"], image["width"], image["height"], boxes[image["id"]])
        for image in document["images"]
    }


def _truth(image_id: int, width: int, height: int, annotations: list[dict[str, Any]]) -> Truth:
    def edges(box: list[float]) -> list[float]:
        left, top, w, h = box
        return [top / height, left / width, (top + h) / height, (left + w) / width]

    return {
        "image_id": image_id,
        "categories": [int(a["category_id"]) for a in annotations],
        "boxes": [edges(a["bbox"]) for a in annotations],
        "size": [height, width],
        "areas": [a["area"] for a in annotations],
        "crowd": [a["iscrowd"] for a in annotations],
    }


def _of_pbtxt(text: str) -> dict[str, Truth]:
    document = text_format.Parse(text, messages.detection_truth())
    return {
        image.image_name: {
            "image_id": image.image_id,
            "categories": [found.class_id for found in image.objects],
            "boxes": [
                [
                    found.bounding_box.normalized_top,
                    found.bounding_box.normalized_left,
                    found.bounding_box.normalized_bottom,
                    found.bounding_box.normalized_right,
                ]
                for found in image.objects
            ],
        }
        for image in document.detection_results
    }
