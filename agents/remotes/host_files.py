"""Copies of what a program has left on the agent's own host, like those of phones' files."""

from __future__ import annotations

import asyncio
import os
import stat
from pathlib import Path
from typing import IO

from agents.remotes.budget import Budget
from agents.remotes.remote import FaultKind, RemoteFault
from controller.contracts.result import Blame
from controller.platform.atomic import replacing

_BLOCK = 1 << 20


async def copy_tree(source: Path, target: Path, budget: Budget) -> None:
    """Copy a file or folder; as on a phone, a link is copied as the file it leads to.

    Raises RemoteFault, OSError; also for a link to a folder, which may be one that it is in, and
    for a link out of the folder: a program in a container may mean another file by that name.
    """
    folder = source if _is_folder(source) else source.parent
    await _copy(source, target, folder.resolve(), budget, 0)


async def _copy(source: Path, target: Path, root: Path, budget: Budget, depth: int) -> None:
    if not _is_folder(source):
        await _copy_file(source, target, root, budget)
        return
    budget.require_depth(depth, str(source))
    target.mkdir(exist_ok=True)
    with os.scandir(source) as entries:
        for entry in entries:
            budget.spend(files=1)
            await _copy(source / entry.name, target / entry.name, root, budget, depth + 1)


def _is_folder(path: Path) -> bool:
    """Return whether a path is a folder itself, not a link to one; raises OSError."""
    return stat.S_ISDIR(path.lstat().st_mode)


async def _copy_file(source: Path, target: Path, root: Path, budget: Budget) -> None:
    """Copy a file, completely or not at all. root: the folder that no link may lead out of."""
    mode = source.stat().st_mode
    if seen := _objection(source, mode, root):
        message = f"cannot pull {source}: {seen}. Leave files, folders and links to these files."
        raise RemoteFault(budget.place, FaultKind.PROTOCOL, message, Blame.WORKLOAD)
    # In blocks, since a thread can't be cancelled.
    with source.open("rb") as file, replacing(target) as new, new.open("wb") as copy:
        while size := await asyncio.to_thread(_copy_block, file, copy):
            budget.spend(size=size)
    target.chmod(0o755 if mode & stat.S_IXUSR else 0o644)


def _objection(source: Path, mode: int, root: Path) -> str:
    """Return why a file is not copied; empty if it is. mode: of what a link leads to."""
    if stat.S_ISDIR(mode):
        return "Is a directory behind a link"
    if not stat.S_ISREG(mode):  # a pipe could be read for ever
        return "not a regular file"
    if source.is_symlink() and not source.resolve().is_relative_to(root):
        return f"a link that leads out of {root}"
    return ""


def _copy_block(file: IO[bytes], copy: IO[bytes]) -> int:
    """Copy the next bytes and return how many; 0 at the end."""
    return copy.write(file.read(_BLOCK))
