"""Images from a folder or a zip, sorted by name, and fitted to a model's input.

Files `.rgb8` are pixels alone: (height, width, 3) bytes of a size that the task knows.
"""

from __future__ import annotations

import io
import math
import zipfile
import zlib
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray
from PIL import Image, UnidentifiedImageError

from controller.contracts.documents import read_limited
from controller.contracts.mobile import ImageInput, TensorType
from models.mobile.errors import DatasetUnusable
from models.mobile.pixels import crop_center, in_steps, normalised, padded, resize_bilinear

RAW: Final = ".rgb8"
DECODED: Final = (".jpg", ".jpeg", ".png", ".bmp")
SUFFIXES: Final = (*DECODED, RAW)
MAX_IMAGE_BYTES: Final = 2**28
"""Largest file with an image."""
MAX_TRUTH_BYTES: Final = 2**30
"""Largest file with truths."""
UNDECODABLE: Final = (
    OSError,
    SyntaxError,
    ValueError,
    zipfile.BadZipFile,
    zlib.error,
    RuntimeError,
    Image.DecompressionBombError,
)
"""Errors of a damaged image, of one with too many pixels, and of a damaged, encrypted or
unsupported entry of a zip."""
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
    def of(
        cls, source: Path, part: str = "samples", suffixes: tuple[str, ...] = SUFFIXES
    ) -> ImageFiles:
        """Return the images of a source; raises DatasetUnusable if it has none or can't be read."""
        field = f"parts.{part}"
        try:
            archive = None if source.is_dir() else zipfile.ZipFile(source)
            found = archive.namelist() if archive else _below(source)
        except (OSError, zipfile.BadZipFile) as error:
            raise unusable(source, field, str(error)) from error
        names = sorted(n for n in found if n.lower().endswith(suffixes) and not _is_hidden(n))
        if not names:
            raise unusable(source, field, "it has no image")
        return cls(source, part, tuple(names), archive)

    def content(self, name: str) -> bytes:
        """Return the content of a file; raises one of UNDECODABLE, also for one without end."""
        if self.archive is None:
            return read_limited(self.source / name, MAX_IMAGE_BYTES)
        size = self.archive.getinfo(name).file_size
        if size > MAX_IMAGE_BYTES:
            raise ValueError(f"unpacked, it would have {size} bytes")
        return self.archive.read(name)

    def read(self, name: str) -> bytes:
        """Return the content of a file; raises DatasetUnusable naming it."""
        try:
            return self.content(name)
        except UNDECODABLE as error:
            raise self.unusable(f"image {name}: {error}") from error

    def image(self, name: str, mode: str = "RGB") -> Image.Image:
        """Decode one image; an empty mode keeps its own. Raises DatasetUnusable naming it."""
        try:
            with Image.open(io.BytesIO(self.read(name))) as image:
                return image.convert(mode) if mode else image.copy()
        except UNDECODABLE as error:
            raise self.unusable(f"image {name}: {why_undecodable(error)}") from error

    def pixels(self, name: str, height: int, width: int, most_times: int = 1) -> Pixels:
        """Return an image as (height, width, 3); raises DatasetUnusable naming it.

        height, width: the size of a `.rgb8` image, or of the image of which it is an enlargement by
        a whole number up to `most_times`.
        """
        if not name.lower().endswith(RAW):
            return np.asarray(self.image(name))
        content = self.read(name)
        for times in range(1, most_times + 1):
            shape = (height * times, width * times, 3)
            if len(content) == math.prod(shape):
                return np.frombuffer(content, np.uint8).reshape(shape)
        enlarged = " or its enlargement" if most_times > 1 else ""
        seen = f"its {len(content)} bytes are no image of {width}x{height}{enlarged}"
        raise self.unusable(f"image {name}: {seen}")

    def of_stems(self) -> dict[str, str]:
        """Return the name of each file by its name without folder and suffix."""
        return {PurePosixPath(name).stem: name for name in self.names}

    def unusable(self, seen: str) -> DatasetUnusable:
        """Return the error about this part."""
        return unusable(self.source, f"parts.{self.part}", seen)


def why_undecodable(error: Exception) -> str:
    """Return what one of UNDECODABLE says."""
    if isinstance(error, UnidentifiedImageError):  # it names an object of ours
        return "its content is no image"
    return str(error) or type(error).__name__


def _is_hidden(name: str) -> bool:
    """Return whether a file is the system's: `__MACOSX/…` of a zip, `._a.png`, `.DS_Store`."""
    return any(part.startswith((".", "__MACOSX")) for part in PurePosixPath(name).parts)


def _below(folder: Path) -> list[str]:
    return [p.relative_to(folder).as_posix() for p in folder.rglob("*") if p.is_file()]


def unusable(source: Path, field: str, seen: str) -> DatasetUnusable:
    """Return the error about a part of a data set."""
    return DatasetUnusable(
        f"read {source} ({field})", seen, "Correct or replace the file, then add it again."
    )


def fitted(image: Pixels, wanted: ImageInput) -> NDArray[Any]:
    """Return an image (h, w, 3) in the model's input size: uint8, or float32 if it was resized.

    Raises ValueError if the size must not change.
    """
    height, width = wanted.height, wanted.width
    if wanted.fit == "as_is":
        if image.shape[:2] != (height, width):
            raise ValueError(f"it is {image.shape[1]}x{image.shape[0]}, not {width}x{height}")
        return image
    if wanted.fit == "pad":
        return padded(image, height, width)
    if wanted.fit == "center_crop":
        image = crop_center(image, wanted.crop)
    return resize_bilinear(image, height, width)


@dataclass(frozen=True, slots=True)
class FittedImages:
    """Image samples, with truths by image name; used by most loaders."""

    images: ImageFiles
    wanted: ImageInput
    truths: Any = None
    """Function from an image's name to its truth; None without truths."""
    model_type: TensorType = "uint8"
    """Type of the model's input. Samples are pixels (uint8), but float32 and normalised for a float
    model if they are resized, since pixels would lose the fractions."""

    def __len__(self) -> int:
        return len(self.images.names)

    def inputs(self, index: int) -> tuple[NDArray[Any]]:
        """See Samples.inputs."""
        name, wanted = self.images.names[index], self.wanted
        image = self.images.pixels(name, wanted.height, wanted.width)
        try:
            # The evaluation stage neither crops nor resizes images without a header.
            found = image if name.lower().endswith(RAW) else fitted(image, wanted)
        except ValueError as error:
            raise self.images.unusable(f"image {name}: {error}") from error
        if wanted.fit in ("as_is", "pad"):
            return (found,)
        if self.model_type == "float32":
            return (normalised(found, wanted.mean, wanted.std),)
        return (in_steps(found, self.model_type),)

    def truth(self, index: int) -> Any:  # noqa: ANN401 - see models.mobile.samples.Truth
        """See Samples.truth."""
        return None if self.truths is None else self.truths(self.images.names[index])
