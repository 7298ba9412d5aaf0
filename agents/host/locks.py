"""Locks between the processes of a machine; the kernel drops one with the process that holds it."""

from __future__ import annotations

import asyncio
import fcntl
import os
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path

RETRY_S = 1.0


@asynccontextmanager
async def exclusive(file: Path) -> AsyncIterator[None]:
    """Hold a file's lock; waits until it is free."""
    descriptor = _open(file)
    try:
        # Tries once a second: nothing of ours is measured meanwhile, and a blocked thread couldn't
        # be cancelled.
        while not _try_lock(descriptor):
            await asyncio.sleep(RETRY_S)
        yield
    finally:
        os.close(descriptor)


@contextmanager
def exclusive_now(file: Path) -> Iterator[bool]:
    """Hold a file's lock if it is free now; gives whether it was."""
    descriptor = _open(file)
    try:
        yield _try_lock(descriptor)
    finally:
        os.close(descriptor)


def _open(file: Path) -> int:
    # Reading is all that flock needs, and all that another user's file allows.
    try:
        return os.open(file, os.O_RDONLY)
    except FileNotFoundError:
        descriptor = os.open(file, os.O_CREAT | os.O_RDONLY, 0o644)
        os.fchmod(descriptor, 0o644)  # whatever this user's umask
        return descriptor


def _try_lock(descriptor: int) -> bool:
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True
