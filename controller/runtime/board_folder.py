"""The folder of a board: whose it is, and the checksums of its files."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from controller.contracts.errors import UserError
from controller.platform.terminal import LONGEST

MARK: Final = "benchfarm-board.txt"
SUMS: Final = "SHA256SUMS"
SIGNATURE: Final = "SHA256SUMS.sig"
TOLD: Final = "A board of results. `benchfarm publish` replaces this folder as a whole.\n"
_REMEDY: Final = "Name a new or an empty folder, or one that `benchfarm publish` wrote."


def require_own(folder: Path) -> None:
    """Raise UserError unless a folder may be replaced.

    It may if it doesn't exist, is empty, or holds a board and nothing that isn't the board's.
    """
    tried = f"publish to {folder}"
    try:
        if not folder.exists():
            return
        if not folder.is_dir():
            raise UserError(tried, "it is not a folder", _REMEDY)
        there = set(_files_in(folder))
        if there and not _is_marked(folder):
            raise UserError(tried, "it is not empty and holds no board", _REMEDY)
        if strangers := sorted(there - _listed(folder)):
            seen = f"{strangers[0][:LONGEST]!r} is not part of the board in it"
            raise UserError(tried, seen, "Move it elsewhere, for the whole folder is replaced.")
    except OSError as error:
        raise UserError(tried, error.strerror or str(error), _REMEDY) from error


def mark(folder: Path) -> None:
    """Make a folder one that holds a board; raises OSError."""
    folder.joinpath(MARK).write_text(TOLD)


def write_sums(folder: Path) -> Path:
    """Write the SHA-256 of every file of a board as `sha256sum -c` reads it; return the file.

    Names of a board's files have no line breaks and no backslashes. Raises OSError.
    """
    lines = [f"{_sha256(folder / name)}  {name}\n" for name in sorted(_files_in(folder))]
    sums = folder / SUMS
    sums.write_text("".join(lines))
    return sums


def _is_marked(folder: Path) -> bool:
    path = folder / MARK
    return not path.is_symlink() and path.is_file() and path.read_bytes() == TOLD.encode()


def _listed(folder: Path) -> frozenset[str]:
    """Return the files that a board's checksums list, and the list and its signature."""
    try:
        lines = folder.joinpath(SUMS).read_text(errors="replace").splitlines()
    except FileNotFoundError:
        lines = []
    return frozenset((SUMS, SIGNATURE, *(line.partition("  ")[2] for line in lines)))


def _files_in(folder: Path) -> Iterator[str]:
    """Yield the path of all that is in a folder and is no folder, and of empty folders."""
    for place, folders, files in os.walk(folder, onerror=_raise):
        inside = Path(place).relative_to(folder)
        links = [name for name in folders if Path(place, name).is_symlink()]
        yield from (str(inside / name) for name in (*files, *links))
        if not folders and not files and place != str(folder):
            yield str(inside)


def _raise(error: OSError) -> None:
    raise error


def _sha256(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
