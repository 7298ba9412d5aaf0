"""Atomic replacement of files and folders: a reader sees the whole old or the whole new content."""

from __future__ import annotations

import ctypes
import errno
import os
import secrets
import shutil
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO, Final

_AT_FDCWD: Final = -100
_RENAME_EXCHANGE: Final = 2


@contextmanager
def replacing(path: Path) -> Iterator[Path]:
    """Yield a new path beside a file, which replaces the file when the block ends.

    If the block raises, the new file is removed, so that a full disk isn't made fuller.
    """
    new = path.with_name(f".{secrets.token_hex(8)}.new")  # without the name, which may be too long
    try:
        yield new
        new.replace(path)
    finally:
        new.unlink(missing_ok=True)


@contextmanager
def replacing_on_disk(path: Path) -> Iterator[BinaryIO]:
    """Yield a new file that only its owner can read, and that replaces another as in `replacing`;
    both its content and its name are on disk when the block has ended."""
    with replacing(path) as new:
        descriptor = os.open(new, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        with os.fdopen(descriptor, "wb") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
    sync_folder(path.parent)


def write_private(path: Path, text: str) -> None:
    """Replace a file atomically by one that only its owner can read; returns once it is on disk."""
    with replacing_on_disk(path) as file:
        file.write(text.encode())


def sync_folder(folder: Path) -> None:
    """Return once the names in a folder are on disk; at once where its file system syncs no
    folders."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    except OSError as error:
        if error.errno != errno.EINVAL:  # as some network file systems answer, see fsync(2)
            raise
    finally:
        os.close(descriptor)


@contextmanager
def replacing_files(folder: Path, names: Sequence[str]) -> Iterator[Path]:
    """Yield a new folder inside another, new or not: its files replace those of the same names when
    the block ends.

    names: of all that it may have; where it has none, the old file is removed. If the block raises,
    the old files are as they were.
    """
    new = folder / f".{secrets.token_hex(8)}.new"
    new.mkdir(parents=True)
    try:
        yield new
        for name in names:
            if (new / name).exists():
                (new / name).replace(folder / name)
            else:
                (folder / name).unlink(missing_ok=True)
    finally:
        shutil.rmtree(new, ignore_errors=True)


@contextmanager
def replacing_folder(path: Path) -> Iterator[Path]:
    """Yield a new folder beside another, which replaces the whole folder when the block ends.

    If the block raises, the new folder is removed and the old one is as it was. A reader who opens
    a file by its path sees the old or the new folder, never none, where the file system can
    exchange two folders.
    """
    new = path.with_name(f".{secrets.token_hex(8)}.new")
    new.mkdir()
    try:
        yield new
        _take_place(new, path)
    finally:
        shutil.rmtree(new, ignore_errors=True)  # what failed, or what was replaced


def _take_place(new: Path, path: Path) -> None:
    if not path.exists():
        new.rename(path)
        return
    try:
        _exchange(new, path)
    except OSError as error:
        if error.errno not in (errno.EINVAL, errno.ENOSYS):  # as on NFS
            raise
        _move_aside(new, path)


def _exchange(one: Path, other: Path) -> None:
    """Exchange two folders of one file system at once, see renameat2(2); raises OSError."""
    library = ctypes.CDLL(None, use_errno=True)
    names = os.fsencode(one), os.fsencode(other)
    if library.renameat2(_AT_FDCWD, names[0], _AT_FDCWD, names[1], _RENAME_EXCHANGE) != 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number), str(other))


def _move_aside(new: Path, path: Path) -> None:
    aside = path.with_name(f".{secrets.token_hex(8)}.old")
    path.rename(aside)
    try:
        new.rename(path)
    except OSError:
        aside.rename(path)
        raise
    shutil.rmtree(aside, ignore_errors=True)
