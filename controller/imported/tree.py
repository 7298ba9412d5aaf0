"""A folder of somebody else's, read without following it anywhere: names, sizes, small files."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath
from typing import Final

from controller.contracts.documents import DocumentRefused
from controller.platform.terminal import visible

MOST_DEPTH: Final = 16
"""Folders inside each other; the deepest published tree has 9."""
MOST_ENTRIES: Final = 1_000_000
LONGEST_NAME: Final = 120
NOT_RESULTS: Final = frozenset(
    {".git", "calibration", "code", "compliance", "documentation", "measurements"}
)
"""Folders of a submission without results."""


@dataclass(slots=True)
class Tree:
    """The files of a folder that were asked for, by their paths from it; and what was refused."""

    root: Path
    files: list[PurePosixPath] = field(default_factory=list)
    refused: list[str] = field(default_factory=list)
    """Lines, each with a path and a reason."""
    entries: int = 0
    most: int = MOST_ENTRIES


def read_tree(
    root: Path, names: frozenset[str], folder_of_any: str, most: int = MOST_ENTRIES
) -> Tree:
    """Return the files of a folder that have one of some names, or are `.json` in `folder_of_any`.

    Symbolic links are not followed; they, names that could steer a terminal and what lies too deep
    are refused, with a line each. most: entries that are looked at. Raises OSError if the root
    cannot be listed.
    """
    tree = Tree(root, most=most)
    for path in _walk(tree, PurePosixPath(), 0):
        in_any = path.parent.name == folder_of_any and path.suffix == ".json"
        if path.name in names or in_any:
            tree.files.append(path)
    tree.files.sort()
    return tree


def _walk(tree: Tree, folder: PurePosixPath, depth: int) -> Iterator[PurePosixPath]:
    try:
        with os.scandir(tree.root / folder) as listed:
            entries = sorted(listed, key=lambda entry: entry.name)
    except OSError as error:
        if not depth:
            raise
        tree.refused.append(f"{folder}: {error.strerror}")
        return
    for entry in entries:
        tree.entries += 1
        if tree.entries > tree.most:
            if tree.entries == tree.most + 1:
                tree.refused.append(f"{folder}: the tree has more than {tree.most} entries")
            return
        path = folder / entry.name
        if why := _objection(entry, depth):
            tree.refused.append(f"{path}: {why}")
        elif entry.is_dir(follow_symlinks=False):
            if entry.name not in NOT_RESULTS:
                yield from _walk(tree, path, depth + 1)
        else:
            yield path


def _objection(entry: os.DirEntry[str], depth: int) -> str:
    """Return why an entry is refused; empty for one that is not."""
    if visible(entry.name) != entry.name:
        return "its name has control characters, or is not text"
    if len(entry.name) > LONGEST_NAME:
        return f"its name has more than {LONGEST_NAME} characters"
    if entry.is_symlink():
        return "a symbolic link, which is not followed"
    if depth >= MOST_DEPTH and entry.is_dir(follow_symlinks=False):
        return f"nested more than {MOST_DEPTH} folders deep"
    return ""


def read_text(root: Path, path: PurePosixPath, most: int) -> str:
    """Return the text of a regular file of at most `most` bytes.

    Raises OSError, DocumentRefused, UnicodeDecodeError.
    """
    # Not blocking, for it may be a FIFO.
    flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
    with os.fdopen(os.open(root / path, flags), "rb") as file:
        status = os.fstat(file.fileno())
        if not stat.S_ISREG(status.st_mode):
            raise DocumentRefused("it is not a regular file")
        if status.st_size > most:
            raise DocumentRefused(f"it has more than {most} bytes")
        content = file.read(most + 1)
    if len(content) > most:
        raise DocumentRefused(f"it has more than {most} bytes")
    return content.decode()
