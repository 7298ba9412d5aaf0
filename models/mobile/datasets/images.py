"""Images from a folder or a zip, sorted by name, and fitted to a model's input."""

from __future__ import annotations

import io
import zipfile
import zlib
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from controller.contracts.mobile import ImageInput
from models.mobile.errors import DatasetUnusable

SUFFIXES: Final = (".jpg", ".jpeg", ".png", ".bmp")
MAX_TRUTH_BYTES: Final = 2**30
"""Largest file with truths."""
UNDECODABLE: Final = (
    OSError,
    SyntaxError,
    ValueError,
    zipfile.BadZipFile,
    zlib.error,
    RuntimeError,
)
"""Errors of a damaged image, and of a damaged, encrypted or unsupported entry of a zip."""
Pixels = NDArray[np.uint8]
"""(height, width, 3), or (height, width) for an image of class numbers."""


@dataclass(frozen=True, slots=True)
class ImageFiles:
    """The images in a folder or a zip."""

    source: Path
    part: str
    """Part of the data set, named in errors."""
    names: tuple[str, ...]
    """Paths in the source, sorted."""
    archive: zipfile.ZipFile | None
    """The open zip, so that its list of entries is read once; None for a folder."""

    @classmethod
    def of(cls, source: Path, part: str = "samples") -> ImageFiles:
        """Return the images of a source; raises DatasetUnusable if it has none or can't be read."""
        field = f"parts.{part}"
        try:
            archive = None if source.is_dir() else zipfile.ZipFile(source)
            found = archive.namelist() if archive else _below(source)
        except (OSError, zipfile.BadZipFile) as error:
            raise unusable(source, field, str(error)) from error
        names = sorted(name for name in found if name.lower().endswith(SUFFIXES))
        if not names:
            raise unusable(source, field, "it has no image")
        return cls(source, part, tuple(names), archive)

    def read(self, name: str, mode: str = "RGB") -> Image.Image:
        """Decode one image; raises DatasetUnusable naming it."""
        try:
            zipped = self.archive
            content = zipped.read(name) if zipped else (self.source / name).read_bytes()
            with Image.open(io.BytesIO(content)) as image:
                return image.convert(mode) if mode else image.copy()
        except UNDECODABLE as error:
            raise self.unusable(f"image {name}: {error}") from error

    def unusable(self, seen: str) -> DatasetUnusable:
        """Return the error about this part."""
        return unusable(self.source, f"parts.{self.part}", seen)


def _below(folder: Path) -> list[str]:
    return [p.relative_to(folder).as_posix() for p in folder.rglob("*") if p.is_file()]


def unusable(source: Path, field: str, seen: str) -> DatasetUnusable:
    """Return the error about a part of a data set."""
    return DatasetUnusable(
        f"read {source} ({field})", seen, "Correct or replace the file, then add it again."
    )


def fitted(image: Image.Image, wanted: ImageInput) -> Pixels:
    """Return pixels of the model's input size; raises ValueError if the size must not change."""
    size = (wanted.width, wanted.height)
    if image.size == size:
        return np.asarray(image)
    if wanted.fit == "as_is":
        raise ValueError(f"it is {image.size[0]}x{image.size[1]}, not {size[0]}x{size[1]}")
    box = _middle(image.size, wanted) if wanted.fit == "center_crop" else None
    return np.asarray(image.resize(size, Image.Resampling.BILINEAR, box=box))


def _middle(size: tuple[int, int], wanted: ImageInput) -> tuple[float, float, float, float]:
    """Return the centre crop of an image with the model's proportions."""
    width, height = size
    scale = wanted.crop * min(width / wanted.width, height / wanted.height)
    cut_w, cut_h = wanted.width * scale, wanted.height * scale
    left, top = (width - cut_w) / 2, (height - cut_h) / 2
    return (left, top, left + cut_w, top + cut_h)


@dataclass(frozen=True, slots=True)
class FittedImages:
    """Image samples, with truths by image name; used by most loaders."""

    images: ImageFiles
    wanted: ImageInput
    truths: Any = None
    """Function from an image's name to its truth; None without truths."""

    def __len__(self) -> int:
        return len(self.images.names)

    def inputs(self, index: int) -> tuple[Pixels]:
        """See Samples.inputs."""
        name = self.images.names[index]
        try:
            return (fitted(self.images.read(name), self.wanted),)
        except ValueError as error:
            raise self.images.unusable(f"image {name}: {error}") from error

    def truth(self, index: int) -> Any:  # noqa: ANN401 - see models.mobile.samples.Truth
        """See Samples.truth."""
        return None if self.truths is None else self.truths(self.images.names[index])
