"""Images from a folder or a zip, sorted by name, and fitted to a model's input.

Files `.rgb8` are pixels alone: (height, width, 3) bytes of a size that the task knows.
"""

from __future__ import annotations

import math
import zipfile
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from controller.contracts.documents import read_limited
from controller.contracts.mobile import ImageInput, TensorType
from models.mobile.decoding import DECODED, decoded, pixels_of
from models.mobile.errors import DatasetUnusable
from models.mobile.links import not_followed
from models.mobile.pixels import Fitting, fitted, typed

RAW: Final = ".rgb8"
SUFFIXES: Final = (*DECODED, RAW)
MAX_IMAGE_BYTES: Final = 2**28
"""Largest file with an image."""
MAX_TRUTH_BYTES: Final = 2**30
"""Largest file with truths."""
UNDECODABLE: Final = (
    OSError,
    EOFError,
    SyntaxError,
    ValueError,
    zipfile.BadZipFile,
    zlib.error,
    RuntimeError,
)
"""Errors of a damaged image, and of a damaged, encrypted or unsupported zip, or entry of one."""
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
            names = sorted(n for n in found if n.lower().endswith(suffixes) and not _is_hidden(n))
            if not names:
                raise unusable(source, field, f"it has no image{not_followed(source)}")
        except UNDECODABLE as error:
            raise unusable(source, field, str(error)) from error
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
            seen = str(error) or type(error).__name__
            raise self.unusable(f"image {name}: {seen}") from error

    def image(self, name: str, mode: str = "RGB") -> Image.Image:
        """Decode one image; an empty mode keeps its own. Raises DatasetUnusable naming it."""
        content = self.read(name)
        with self.naming(name):
            return decoded(content, mode)

    @contextmanager
    def naming(self, name: str) -> Iterator[None]:
        """Convert ValueError to DatasetUnusable about an image."""
        try:
            yield
        except ValueError as error:
            raise self.unusable(f"image {name}: {error}") from error

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
        """Return the name of each file by its name without folder and suffix.

        Raises DatasetUnusable if two are alike.
        """
        found: dict[str, str] = {}
        for name in self.names:
            other = found.setdefault(PurePosixPath(name).stem, name)
            if other != name:
                raise self.unusable(f"{other} and {name} are of one sample")
        return found

    def unusable(self, seen: str) -> DatasetUnusable:
        """Return the error about this part."""
        return unusable(self.source, f"parts.{self.part}", seen)


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


def fitting_of(wanted: ImageInput) -> Fitting:
    """Return how a task's images come to its model's input."""
    w = wanted
    return Fitting(w.height, w.width, w.fit, w.crop, w.mean, w.std)


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
        name, to = self.images.names[index], fitting_of(self.wanted)
        image = self.images.pixels(name, to.height, to.width)
        if not name.lower().endswith(RAW):  # the evaluation stage neither crops nor resizes them
            with self.images.naming(name):
                image = fitted(image, to)
        return (typed(image, to, self.model_type),)

    def published(self) -> Callable[[int], bytes] | None:
        """Return the function that gives each image's file, checked as `inputs` does it; None if
        devices can't decode all of them."""
        if not all(name.lower().endswith(DECODED) for name in self.images.names):
            return None
        return self._checked_file

    def _checked_file(self, index: int) -> bytes:
        name, to = self.images.names[index], fitting_of(self.wanted)
        content = self.images.read(name)
        with self.images.naming(name):
            image = pixels_of(content)
            if to.fit == "as_is":
                fitted(image, to)
        return content

    def truth(self, index: int) -> Any:  # noqa: ANN401 - see models.mobile.samples.Truth
        """See Samples.truth."""
        return None if self.truths is None else self.truths(self.images.names[index])
