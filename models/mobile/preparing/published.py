"""Files of a data set as it is published, found below a folder, and checks of their images."""

from __future__ import annotations

import os
import zipfile
from collections.abc import Callable, Collection, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from pathlib import Path, PurePosixPath
from typing import Final

from PIL import Image

from controller.contracts.errors import UserError
from models.mobile.datasets.images import UNDECODABLE, ImageFiles
from models.mobile.decoding import decoded
from models.mobile.links import not_followed

SAY_EVERY: Final = 5000
"""Images between two lines of progress."""
Say = Callable[[str], None]
Used = Mapping[str, Callable[[], bytes]]
"""Name of each published file that a part was made of → function that reads it."""


@dataclass(frozen=True, slots=True)
class Made:
    """The parts of a data set, for the keys of all tasks that use it."""

    kind: str
    """Kind of the data sets in manifests."""
    samples: Path
    truth: Path
    count: int
    """Number of samples."""
    used: Mapping[str, Used]
    """Part → the published files it was made of; none of a part that was made of others, or that no
    published checksum vouches for."""


@dataclass(frozen=True, slots=True)
class Published:
    """The folder of a published data set."""

    name: str
    """Name of the set, for errors."""
    path: Path

    def unusable(self, seen: str, remedy: str) -> UserError:
        """Return the error about this folder."""
        return UserError(f"prepare {self.name} from {self.path}", seen, remedy)

    def lacks(self, what: str, remedy: str) -> UserError:
        """Return the error about something that was not found below this folder."""
        return self.unusable(f"it has no {what}{not_followed(self.path)}", remedy)

    def files(self, *names: str) -> Mapping[str, Path]:
        """Return the files of these names, wherever they are below the folder."""
        found = (path for path in sorted(self.path.rglob("*")) if path.name in names)
        return {path.name: path for path in found if path.is_file()}

    def images(self, is_meant: Callable[[str], bool], what: str) -> ImageFiles:
        """Return the images whose file names are meant: those of a folder or zip of their own.

        what: names them in errors. Raises UserError.
        """
        found = [path for path in self.path.rglob("*") if is_meant(path.name)]
        if found:
            source = Path(os.path.commonpath([path.parent for path in found]))
        else:
            zips = (path for path in sorted(self.path.rglob("*.zip")) if _has(path, is_meant))
            zipped = next(zips, None)
            if zipped is None:
                raise self.lacks(what, "Unpack the published archive there.")
            source = zipped
        images = ImageFiles.of(source)
        place_of: dict[str, str] = {}
        for name in images.names:
            last = PurePosixPath(name).name
            if not is_meant(last):
                seen = f"{source} has other images than {what}, such as {name}"
                raise self.unusable(seen, "Keep those in another folder.")
            if place_of.setdefault(last, name) != name:
                seen = f"{source} has an image twice: {place_of[last]} and {name}"
                raise self.unusable(seen, "Keep the other set in another folder.")
        return images

    def repacked(
        self, archive: Path, is_meant: Callable[[str], bool], what: str, target: Path
    ) -> ImageFiles:
        """Return the images of an archive that are meant, copied into a zip of their own.

        Holds one image at a time. Raises UserError.
        """
        whole = ImageFiles.of(archive)
        names = [name for name in whole.names if is_meant(PurePosixPath(name).name)]
        if not names:
            raise self.unusable(f"{archive.name} has no {what}", "Get the archive again.")
        with zipfile.ZipFile(target, "w") as packed:  # stored: images are compressed already
            for name in names:
                packed.writestr(PurePosixPath(name).name, whole.read(name))
        return ImageFiles.of(target)

    def check(
        self, images: ImageFiles, complaint: Callable[[str, Image.Image], str | None], say: Say
    ) -> None:
        """Decode every image; raises UserError for the first that is damaged or wrong.

        complaint: what is wrong with an image of this name, or None.
        """

        def seen_of(name: str) -> str | None:
            try:
                return complaint(name, decoded(images.content(name), mode=""))
            except UNDECODABLE as error:
                return str(error) or type(error).__name__

        with ThreadPoolExecutor(os.cpu_count()) as pool:
            for number, seen in enumerate(pool.map(seen_of, images.names), 1):
                if seen:
                    pool.shutdown(cancel_futures=True)
                    wrong = f"image {images.names[number - 1]}: {seen}"
                    raise self.unusable(wrong, "Get this image again.")
                if number % SAY_EVERY == 0:
                    say(f"{number} of {len(images.names)} images checked")

    def require_same(self, images: Collection[str], others: Collection[str], what: str) -> None:
        """Raise UserError unless images and what belongs to them have the same names."""
        for missing, where in ((set(images) - set(others), what), (set(others) - set(images), "")):
            if missing:
                at = f"{what} has nothing of" if where else f"the folder lacks, but {what} has,"
                seen = f"{at} image {min(missing)}" + _more(len(missing))
                raise self.unusable(seen, "Use the whole set as published.")


def stems(images: ImageFiles) -> dict[str, str]:
    """Return the names of images by their last parts without suffix."""
    return {PurePosixPath(name).stem: name for name in images.names}


def files_of(images: ImageFiles) -> Used:
    """Return images as files that were used."""
    return {PurePosixPath(name).name: partial(images.read, name) for name in images.names}


def no_complaint(_: str, __: Image.Image) -> None:
    """Accept every image that can be decoded."""


def _more(number: int) -> str:
    return f" and {number - 1} more" if number > 1 else ""


def _has(path: Path, is_meant: Callable[[str], bool]) -> bool:
    return any(is_meant(name) for name in _entries(path))


def _entries(path: Path) -> Iterator[str]:
    try:
        with zipfile.ZipFile(path) as archive:
            yield from (PurePosixPath(name).name for name in archive.namelist())
    except UNDECODABLE:
        return
