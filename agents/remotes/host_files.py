"""Copies of what a program has left on the agent's own host, like those of phones' files."""

from __future__ import annotations

import asyncio
import os
import stat
from pathlib import Path
from typing import IO

from agents.remotes.budget import Budget
from agents.remotes.remote import FaultKind, RemoteFault
from controller.platform.atomic import replacing

_BLOCK = 1 << 20


async def copy_tree(source: Path, target: Path, budget: Budget, depth: int = 0) -> None:
    """Copy a file or folder; as on a phone, a link is copied as the file it leads to.

    Raises RemoteFault, OSError; also for a link to a folder, which may be one that it is in.
    """
    if not stat.S_ISDIR(source.lstat().st_mode):
        await _copy_file(source, target, budget)
        return
    budget.require_depth(depth, str(source))
    target.mkdir(exist_ok=True)
    with os.scandir(source) as entries:
        for entry in entries:
            budget.spend(files=1)
            await copy_tree(source / entry.name, target / entry.name, budget, depth + 1)


async def _copy_file(source: Path, target: Path, budget: Budget) -> None:
    """Copy a file, completely or not at all."""
    mode = source.stat().st_mode
    if not stat.S_ISREG(mode):  # a pipe could be read for ever
        seen = "Is a directory behind a link" if stat.S_ISDIR(mode) else "not a regular file"
        message = f"cannot pull {source}: {seen}. Leave files, folders and links to files only."
        raise RemoteFault(budget.place, FaultKind.PROTOCOL, message)
    # In blocks, since a thread can't be cancelled.
    with source.open("rb") as file, replacing(target) as new, new.open("wb") as copy:
        while size := await asyncio.to_thread(_copy_block, file, copy):
            budget.spend(size=size)
    target.chmod(0o755 if mode & stat.S_IXUSR else 0o644)


def _copy_block(file: IO[bytes], copy: IO[bytes]) -> int:
    """Copy the next bytes and return how many; 0 at the end."""
    return copy.write(file.read(_BLOCK))
