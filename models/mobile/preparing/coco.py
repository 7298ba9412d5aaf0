"""COCO's val2017 and its boxes, `instances_val2017.json`."""

from __future__ import annotations

import shutil
import zipfile
import zlib
from pathlib import Path, PurePosixPath
from typing import Final

from PIL import Image

from controller.contracts.documents import load_json, read_limited
from models.mobile.datasets.images import MAX_TRUTH_BYTES
from models.mobile.preparing.published import Made, Published, Say, files_of

BOXES: Final = "instances_val2017.json"
_ARCHIVE: Final = "annotations_trainval2017.zip"


def make(published: Published, work: Path, say: Say) -> Made:
    """Return images and boxes where they are; raises UserError."""
    boxes = _boxes(published, work)
    sizes = _sizes(published, boxes)
    images = published.images(sizes.__contains__, "images that it names")
    published.require_same([PurePosixPath(name).name for name in images.names], sizes, BOXES)

    def complaint(name: str, image: Image.Image) -> str | None:
        wanted = sizes[PurePosixPath(name).name]
        if image.size == wanted:
            return None
        return f"it is {image.width}x{image.height}, and {BOXES} says {wanted[0]}x{wanted[1]}"

    published.check(images, complaint, say)
    used = {"samples": files_of(images), "truth": {BOXES: boxes.read_bytes}}
    return Made("coco", images.source, boxes, len(images.names), used)


def _boxes(published: Published, work: Path) -> Path:
    """Return the file of boxes, unpacked if it is in the published archive."""
    found = published.files(BOXES, _ARCHIVE)
    if BOXES in found:
        return found[BOXES]
    if _ARCHIVE not in found:
        raise published.lacks(BOXES, f"Put it or {_ARCHIVE} there.")
    try:
        with zipfile.ZipFile(found[_ARCHIVE]) as archive:
            info = archive.getinfo(f"annotations/{BOXES}")
            if info.file_size > MAX_TRUTH_BYTES:
                raise ValueError(f"unpacked, {BOXES} would have {info.file_size} bytes")
            with archive.open(info) as packed, (work / BOXES).open("wb") as unpacked:
                shutil.copyfileobj(packed, unpacked)
    except (zipfile.BadZipFile, zlib.error, ValueError, KeyError, EOFError, RuntimeError) as error:
        raise published.unusable(f"{_ARCHIVE}: {error}", "Get the archive again.") from error
    return work / BOXES


def _sizes(published: Published, boxes: Path) -> dict[str, tuple[int, int]]:
    """Return width and height of each image by file name, as the boxes' file says."""
    try:
        document = load_json(read_limited(boxes, MAX_TRUTH_BYTES), MAX_TRUTH_BYTES)
        return {i["file_name"]: (i["width"], i["height"]) for i in document["images"]}
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise published.unusable(f"{BOXES}: {error!r}", "Get the file again.") from error
