"""The SNU SR set: large images, and small ones of the same names.

Nobody has published by what filter the suite's small images were made, so both sizes are needed.
Upright large images are turned, since the suite's lie on their side (mobile_app_open,
flutter/cpp/datasets, README.md); the small ones show in which direction.
"""

from __future__ import annotations

import io
import zipfile
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Final

import numpy as np
from PIL import Image
from PIL.Image import Transpose

from models.mobile.datasets.images import DECODED, UNDECODABLE, ImageFiles, why_undecodable
from models.mobile.errors import DatasetUnusable
from models.mobile.preparing.published import Made, Published, Say, no_complaint, stems

SMALL: Final = (960, 540)
LARGE: Final = (1920, 1080)
UPRIGHT: Final = LARGE[::-1]
ALIKE_DB: Final = 20.0
"""Least PSNR of a small image to the large one's means of 2x2 pixels: filters differ by less
(above 25 dB), other images by more (about 10 dB)."""
_ROTATIONS: Final = (Transpose.ROTATE_90, Transpose.ROTATE_270)
_REMEDY: Final = (
    "Put the small images in a folder or zip of their own, and the large ones in another; "
    "snusr_lr_png.zip has the small ones (`benchfarm models list` has its address)."
)


@dataclass(frozen=True, slots=True)
class _Group:
    """The images that lie side by side in a folder, or in a zip."""

    images: ImageFiles
    sizes: Counter[tuple[int, int]]

    @property
    def text(self) -> str:
        """The number of images of each size, and where they are."""
        counts = (f"{count} of {w}x{h}" for (w, h), count in sorted(self.sizes.items()))
        return f"{' and '.join(counts)} in {self.images.source.name}"


def make(published: Published, work: Path, say: Say) -> Made:
    """Return the images where they are, the large ones copied if any has to be turned.

    Raises UserError.
    """
    groups = list(_groups(published))
    small = _only(published, groups, {SMALL})
    large = _only(published, groups, {LARGE, UPRIGHT})
    small_names = stems(small)
    published.require_same(stems(large), small_names, f"{small.source.name}")
    rotations: dict[str, Transpose] = {}

    def complaint(name: str, image: Image.Image) -> str | None:
        other = small_names[PurePosixPath(name).stem]
        with Image.open(io.BytesIO(small.read(other))) as opened:
            wanted = opened.convert("RGB")
        if image.size == UPRIGHT:
            rotations[name] = max(
                _ROTATIONS, key=lambda rotation: likeness(image.transpose(rotation), wanted)
            )
            image = image.transpose(rotations[name])
        alike = likeness(image, wanted)
        if alike >= ALIKE_DB:
            return None
        return f"it is another image than {other} of {small.source.name} (PSNR {alike:.1f} dB)"

    published.check(small, no_complaint, say)
    published.check(large, complaint, say)
    truth = _turned(large, rotations, work / "hr.zip") if rotations else large.source
    return Made("image_pairs", small.source, truth, len(small.names))


def likeness(large: Image.Image, small: Image.Image) -> float:
    """Return the PSNR of a small image to the means of the large one's 2x2 pixels, in dB."""
    means = np.asarray(large.convert("RGB").reduce(2), np.float32)
    error = float(np.mean((means - np.asarray(small, np.float32)) ** 2))
    return 10 * float(np.log10(255**2 / max(error, 1e-9)))


def _groups(published: Published) -> Iterator[_Group]:
    """Yield the groups of images below the folder; raises UserError for an unreadable one."""
    folders = (path for path in published.path.rglob("*") if path.is_dir())
    for folder in (published.path, *sorted(folders)):
        names = sorted(f.name for f in folder.iterdir() if f.name.lower().endswith(DECODED))
        if names and not any(part.startswith((".", "__MACOSX")) for part in folder.parts[-1:]):
            visible = tuple(name for name in names if not name.startswith("."))
            yield _group(published, ImageFiles(folder, "samples", visible, None))
    for path in sorted(published.path.rglob("*.zip")):
        try:
            yield _group(published, ImageFiles.of(path))
        except DatasetUnusable as error:
            raise published.unusable(f"{path.name}: {error.seen}", "Get it again.") from error


def _group(published: Published, images: ImageFiles) -> _Group:
    sizes: Counter[tuple[int, int]] = Counter()
    for name in images.names:
        try:
            with Image.open(io.BytesIO(images.read(name))) as image:
                sizes[image.size] += 1
        except UNDECODABLE as error:
            seen = f"image {name}: {why_undecodable(error)}"
            raise published.unusable(seen, "Get this image again.") from error
    return _Group(images, sizes)


def _only(published: Published, groups: list[_Group], sizes: set[tuple[int, int]]) -> ImageFiles:
    """Return the one group all of whose images have one of these sizes; raises UserError."""
    found = [group for group in groups if group.sizes.keys() <= sizes]
    if len(found) != 1:
        wanted = " or ".join(f"{width}x{height}" for width, height in sorted(sizes)[::-1])
        there = f"has {', '.join(group.text for group in groups)}" if groups else "has no images"
        count = f"{len(found)} folders or zips" if found else "no folder or zip"
        seen = f"it {there}: {count} of images of {wanted} only"
        raise published.unusable(seen, _REMEDY)
    images = found[0].images
    if len(ImageFiles.of(images.source).names) != len(images.names):
        raise published.unusable(f"{images.source} has folders with other images", _REMEDY)
    return images


def _turned(images: ImageFiles, rotations: Mapping[str, Transpose], target: Path) -> Path:
    """Write a zip of the images, of which some are turned."""
    with zipfile.ZipFile(target, "w") as archive:
        for name in images.names:
            if name not in rotations:
                archive.writestr(PurePosixPath(name).name, images.read(name))
                continue
            written = io.BytesIO()
            images.image(name).transpose(rotations[name]).save(written, "PNG")
            archive.writestr(f"{PurePosixPath(name).stem}.png", written.getvalue())
    return target
