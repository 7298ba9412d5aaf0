"""The files that an attempt has left in its folder, found and opened without leaving it.

A run's program may have made links, pipes and any names: only regular files below the folder are
taken, whose names can be those of artefacts, and no link is followed.
"""

from __future__ import annotations

import os
import stat
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO, Final

from controller.contracts.artefacts import MOST_FILES, fault_of_name

MOST_BYTES: Final = 4 * 2**30
"""Of an attempt, as of the files that are pulled from a device."""
_FOLDER: Final = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_FILE: Final = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC


@dataclass(frozen=True, slots=True)
class State:
    """What tells whether a file has changed."""

    size: int
    inode: int
    mtime_ns: int

    @classmethod
    def of(cls, said: os.stat_result) -> State:
        """Return that of a file."""
        return cls(said.st_size, said.st_ino, said.st_mtime_ns)


@dataclass(frozen=True, slots=True)
class Limits:
    """Most files and bytes that an attempt sends."""

    files: int = MOST_FILES
    total_bytes: int = MOST_BYTES


@dataclass(frozen=True, slots=True)
class Found:
    """The names of an attempt's files, sorted; and why others are left out, a line each."""

    names: tuple[str, ...]
    left_out: tuple[str, ...]


def files_of(folder: Path, limits: Limits = Limits()) -> Found:
    """Return the files below a folder; none if there is no such folder."""
    sizes, left_out = dict[str, int](), list[str]()
    if not folder.is_dir():
        return Found((), ())
    for place, _, names, descriptor in os.fwalk(folder, follow_symlinks=False):
        for name in names:
            path = os.path.relpath(os.path.join(place, name), folder)  # noqa: PTH118 - bytes of any
            try:
                said = os.stat(name, dir_fd=descriptor, follow_symlinks=False)
            except OSError:  # gone meanwhile
                continue
            if why := _objection(path, said):
                left_out.append(f"{path!a}: {why}")
            else:
                sizes[path] = said.st_size
    return _within(sizes, left_out, limits)


def _objection(path: str, said: os.stat_result) -> str:
    if not stat.S_ISREG(said.st_mode):
        return "it is no regular file"
    return fault_of_name(path)


def _within(sizes: dict[str, int], left_out: list[str], limits: Limits) -> Found:
    """Keep the smallest files, if all would be too many."""
    kept, total = list[str](), 0
    for name in sorted(sizes, key=lambda name: (sizes[name], name)):
        if len(kept) >= limits.files:
            left_out.append(f"{name!a}: more than {limits.files} files")
        elif total + sizes[name] > limits.total_bytes:
            left_out.append(f"{name!a}: more than {limits.total_bytes} bytes in all")
        else:
            kept.append(name)
            total += sizes[name]
    return Found(tuple(sorted(kept)), tuple(left_out))


def opened(folder: Path, name: str) -> BinaryIO:
    """Open a file below a folder; raises OSError, also if it is none or a link leads to it."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    *above, last = name.split("/")
    for piece in above:
        descriptor = _below(descriptor, piece, _FOLDER)
    descriptor = _below(descriptor, last, _FILE)
    if stat.S_ISREG(os.fstat(descriptor).st_mode):
        return os.fdopen(descriptor, "rb", buffering=0)
    os.close(descriptor)
    raise OSError("it is no regular file")


def _below(descriptor: int, piece: str, flags: int) -> int:
    """Open what is in a folder, which is closed."""
    try:
        return os.open(piece, flags, dir_fd=descriptor)
    finally:
        os.close(descriptor)
