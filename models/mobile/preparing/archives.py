"""Reading the files in a zip or tar one after the other, without unpacking it."""

from __future__ import annotations

import tarfile
import zipfile
import zlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import IO, Final

from models.mobile.datasets.images import MAX_TRUTH_BYTES

SUFFIXES: Final = (".zip", ".tar", ".tar.gz")
BROKEN: Final = (
    OSError,
    EOFError,
    ValueError,
    RuntimeError,
    zipfile.BadZipFile,
    tarfile.TarError,
    zlib.error,
)
"""Errors of an archive that is damaged, encrypted, or has a member beyond the limit."""


@dataclass(frozen=True, slots=True)
class Member:
    """A file in an archive; to be read before the next one is asked for."""

    name: str
    """Last part of its path."""
    size: int
    open: Callable[[], IO[bytes]]


def members(archive: Path) -> Iterator[Member]:
    """Yield the regular files in an archive, in its order; raises one of BROKEN."""
    return _of_zip(archive) if archive.suffix == ".zip" else _of_tar(archive)


def _of_zip(path: Path) -> Iterator[Member]:
    with zipfile.ZipFile(path) as archive:
        for info in archive.infolist():
            if not info.is_dir():

                def opened(info: zipfile.ZipInfo = info) -> IO[bytes]:
                    return archive.open(info)

                yield Member(PurePosixPath(info.filename).name, info.file_size, opened)


def _of_tar(path: Path) -> Iterator[Member]:
    with tarfile.open(path, "r|*") as archive:
        for info in archive:
            if info.size > MAX_TRUTH_BYTES:  # of a compressed one, passing over it takes as long
                raise ValueError(f"its member {info.name[:80]!r} has {info.size} bytes")
            if info.isfile():  # no link: that is followed elsewhere

                def opened(info: tarfile.TarInfo = info) -> IO[bytes]:
                    file = archive.extractfile(info)
                    assert file is not None
                    return file

                yield Member(PurePosixPath(info.name).name, info.size, opened)
