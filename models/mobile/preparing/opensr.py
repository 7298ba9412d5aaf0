"""The SNU SR set: large images, and small ones of the same names.

Nobody has published by what filter the suite's small images were made, so both sizes are needed.
Upright large images are turned, since the suite's lie on their side (mobile_app_open,
flutter/cpp/datasets, README.md); the small ones show in which direction. Nobody has published a
checksum of the large ones, and what vouches for the small ones does not vouch for them: a model's
own answers, too, show what the small ones show.
"""

from __future__ import annotations

import io
import zipfile
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Final

import numpy as np
from PIL import Image
from PIL.Image import Transpose

from models.mobile.datasets.images import UNDECODABLE, ImageFiles
from models.mobile.decoding import DECODED
from models.mobile.errors import DatasetUnusable
from models.mobile.links import not_followed
from models.mobile.preparing.published import Made, Published, Say, Used, files_of, stems

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
        wanted = small.image(other)
        if image.size == UPRIGHT:
            rotations[name] = max(
                _ROTATIONS, key=lambda rotation: likeness(image.transpose(rotation), wanted)
            )
            image = image.transpose(rotations[name])
        alike = likeness(image, wanted)
        if alike >= ALIKE_DB:
            return None
        return f"it is another image than {other} of {small.source.name} (PSNR {alike:.1f} dB)"

    published.check(large, complaint, say)
    truth = _turned(large, rotations, work / "hr.zip") if rotations else large.source
    used: dict[str, Used] = {"samples": files_of(small), "truth": {}}
    return Made("image_pairs", small.source, truth, len(small.names), used)


def likeness(large: Image.Image, small: Image.Image) -> float:
    """Return the PSNR of a small image to the means of the large one's 2x2 pixels, in dB."""
    means = np.asarray(large.convert("RGB").reduce(2), np.float32)
    error = float(np.mean((means - np.asarray(small, np.float32)) ** 2))
    return 10 * float(np.log10(255**2 / max(error, 1e-9)))


def _groups(published: Published) -> Iterator[_Group]:
    """Yield the groups of images below the folder; raises DatasetUnusable for an unreadable one."""
    folders: dict[Path, list[str]] = {}
    with suppress(DatasetUnusable):  # there may be zips only
        for name in ImageFiles.of(published.path, suffixes=DECODED).names:
            path = published.path / name
            folders.setdefault(path.parent, []).append(path.name)
    for folder, names in folders.items():
        yield _group(ImageFiles(folder, "samples", tuple(names), None))
    for path in sorted(published.path.rglob("*.zip")):
        if not _is_without_images(path):
            yield _group(ImageFiles.of(path, suffixes=DECODED))


def _is_without_images(path: Path) -> bool:
    """Return whether a zip can be read and has other files only."""
    try:
        with zipfile.ZipFile(path) as archive:
            return not any(name.lower().endswith(DECODED) for name in archive.namelist())
    except UNDECODABLE:
        return False


def _group(images: ImageFiles) -> _Group:
    return _Group(images, Counter(_size(images, name) for name in images.names))


def _size(images: ImageFiles, name: str) -> tuple[int, int]:
    """Return an image's width and height by its header; raises DatasetUnusable."""
    content = images.read(name)
    try:
        with Image.open(io.BytesIO(content)) as image:
            return image.size
    except (*UNDECODABLE, Image.DecompressionBombError) as error:
        raise images.unusable(f"image {name}: it can't be decoded") from error


def _only(published: Published, groups: list[_Group], sizes: set[tuple[int, int]]) -> ImageFiles:
    """Return the one group all of whose images have one of these sizes; raises UserError."""
    found = [group for group in groups if group.sizes.keys() <= sizes]
    if len(found) != 1:
        wanted = " or ".join(f"{width}x{height}" for width, height in sorted(sizes)[::-1])
        there = f"has {', '.join(group.text for group in groups)}" if groups else "has no images"
        count = f"{len(found)} folders or zips" if found else "no folder or zip"
        links = not_followed(published.path)
        seen = f"it {there}: {count} of images of {wanted} only{links}"
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
