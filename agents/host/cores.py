"""The machine-wide lock on cores: two agents on one host never measure on the same core.

The leases already keep one farm's runs apart; this keeps two farms apart. The kernel drops a lock
with the process that holds it.
"""

from __future__ import annotations

import asyncio
import fcntl
import os
import tempfile
from collections.abc import AsyncIterator, Collection, Iterator
from contextlib import ExitStack, asynccontextmanager, contextmanager
from pathlib import Path

RETRY_S = 1.0
LOCK_DIR = Path(tempfile.gettempdir()) / "benchfarm-cores"


@asynccontextmanager
async def exclusive_cores(cores: Collection[int], lock_dir: Path = LOCK_DIR) -> AsyncIterator[None]:
    """Hold the lock of every given core; waits, in a fixed order, until they are free."""
    _make(lock_dir)
    held: list[int] = []
    try:
        for core in sorted(cores):
            descriptor = _open(lock_dir / f"core-{core}")
            held.append(descriptor)
            await _lock(descriptor)
        yield
    finally:
        for descriptor in held:
            os.close(descriptor)


@contextmanager
def free_cores(cores: Collection[int], lock_dir: Path = LOCK_DIR) -> Iterator[bool]:
    """Hold the lock of every given core if all are free now; gives whether they were."""
    with ExitStack() as held:
        yield all(_is_locked_now(core, lock_dir, held) for core in sorted(cores))


def _is_locked_now(core: int, lock_dir: Path, held: ExitStack) -> bool:
    _make(lock_dir)
    descriptor = _open(lock_dir / f"core-{core}")
    held.callback(os.close, descriptor)
    return _try_lock(descriptor)


def _make(lock_dir: Path) -> None:
    if not lock_dir.exists():
        lock_dir.mkdir(parents=True, exist_ok=True)
        lock_dir.chmod(0o1777)  # farms of other users lock here too


def _open(path: Path) -> int:
    # Reading is all that flock needs, and all that another user's file allows.
    try:
        return os.open(path, os.O_RDONLY)
    except FileNotFoundError:
        descriptor = os.open(path, os.O_CREAT | os.O_RDONLY, 0o644)
        os.fchmod(descriptor, 0o644)  # whatever this user's umask
        return descriptor


async def _lock(descriptor: int) -> None:
    # Tries once a second: nothing of ours is measured meanwhile, and a blocked thread couldn't
    # be cancelled.
    while not _try_lock(descriptor):
        await asyncio.sleep(RETRY_S)


def _try_lock(descriptor: int) -> bool:
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True
