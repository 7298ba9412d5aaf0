"""ADE20K's challenge set (ADEChallengeData2016): the validation images, and a class for each of
their pixels.

The suite's 32 classes are the set's own numbers: 0 is everything else, and those from 32 on do not
count (mlcommons/mobile_open, vision/deeplab, `input_preprocess.py`). The score leaves those out, so
annotations are used as they are published.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path, PurePosixPath
from typing import Final

from PIL import Image

from models.mobile.datasets.images import ImageFiles
from models.mobile.pixels import UNKNOWN
from models.mobile.preparing.published import Made, Published, Say, files_of, stems

CLASSES: Final = 150
"""Of the challenge, from 1; 0 is everything else."""
ARCHIVE: Final = "ADEChallengeData2016.zip"
_IMAGE: Final = re.compile(r"ADE_val_\d{8}\.jpg")
_ANNOTATION: Final = re.compile(r"ADE_val_\d{8}\.png")
_OF_FULL_SET: Final = "ADE_val_*_seg.png"


def make(published: Published, work: Path, say: Say) -> Made:
    """Return images and annotations where they are, or those of the archive copied.

    Raises UserError.
    """
    if found := next(published.path.rglob(_OF_FULL_SET), None):
        seen = f"{found.name} is of the full ADE20K, whose annotations are colours"
        raise published.unusable(seen, "Use the challenge's set, ADEChallengeData2016.zip.")
    images = _part(published, _IMAGE, "images ADE_val_….jpg", work / "images.zip")
    truth = work / "annotations.zip"
    annotations = _part(published, _ANNOTATION, "annotations ADE_val_….png", truth)
    names = stems(images)
    published.require_same(names, stems(annotations), "the folder of annotations")
    sizes: dict[str, tuple[int, int]] = {}

    def size_kept(name: str, image: Image.Image) -> None:
        sizes[PurePosixPath(name).stem] = image.size

    def complaint(name: str, annotation: Image.Image) -> str | None:
        if annotation.mode not in ("L", "P"):
            return f"its pixels are of mode {annotation.mode}, not class numbers of a byte"
        counts = enumerate(annotation.histogram())
        if strange := [n for n, count in counts if count and CLASSES < n < UNKNOWN]:
            return f"it has class {strange[0]}, and the challenge's are 0 to {CLASSES}"
        size = sizes[PurePosixPath(name).stem]
        if annotation.size == size:
            return None
        return "it is {}x{}, and its image {}x{}".format(*annotation.size, *size)

    published.check(images, size_kept, say)
    published.check(annotations, complaint, say)
    used = {"samples": files_of(images), "truth": files_of(annotations)}
    return Made("ade20k", images.source, annotations.source, len(names), used)


def _part(published: Published, wanted: re.Pattern[str], what: str, target: Path) -> ImageFiles:
    archive = published.files(ARCHIVE).get(ARCHIVE)
    loose = any(wanted.fullmatch(path.name) for path in published.path.rglob("*"))
    if archive is None or loose:
        return published.images(_matches(wanted), what)
    return published.repacked(archive, _matches(wanted), what, target)


def _matches(pattern: re.Pattern[str]) -> Callable[[str], bool]:
    return lambda name: bool(pattern.fullmatch(name))
