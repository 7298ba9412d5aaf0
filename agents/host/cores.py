"""The machine-wide lock on cores: two agents on one host never measure on the same core.

Leases keep the runs of one farm apart; this lock keeps farms apart, including those of other users.
Every user has separate files, which no other user can open or lock. The kernel shows whether
another user's file is locked, and by whom, without opening it (/proc/locks). So nobody can hold a
lock of ours. We wait for another user's lock, but not forever.
"""

from __future__ import annotations

import asyncio
import logging
import os
import random
import stat
import time
from collections.abc import AsyncIterator, Callable, Collection, Iterator
from contextlib import AsyncExitStack, ExitStack, asynccontextmanager, contextmanager
from functools import partial
from pathlib import Path

from controller.contracts.wire import WAIT_FOR_CORE, Progress
from controller.platform.locks import (
    RETRY_S,
    Holder,
    exclusive,
    exclusive_now,
    flocks,
    holder_of,
    is_own,
)

PLACES = (Path("/run/lock"), Path("/var/tmp"), Path("/tmp"))
OTHERS_S = 600.0
"""Longest wait for other users; afterwards the run is measured beside theirs, and the load is
recorded."""
_NAME = "benchfarm-core-{core}.{uid}"
_log = logging.getLogger(__name__)


def lock_folder(places: Collection[Path] = PLACES) -> Path:
    """Return the folder for all users' files: the first that root owns, where all may write but
    nobody may rename or remove another user's files. No environment variable changes it."""
    return next((place for place in places if is_safe(place)), PLACES[-1])


def is_safe(place: Path) -> bool:
    """Return whether root owns a folder, and all may write to it, but only rename or remove their
    own files."""
    try:
        found = place.lstat()
    except OSError:
        return False
    return stat.S_ISDIR(found.st_mode) and found.st_uid == 0 and found.st_mode & 0o1777 == 0o1777


@asynccontextmanager
async def exclusive_cores(
    cores: Collection[int],
    lock_dir: Path | None = None,
    on_wait: Callable[[str], None] | None = None,
    others_s: float = OTHERS_S,
    retry_s: float = RETRY_S,
) -> AsyncIterator[None]:
    """Hold the lock of every given core; waits until they are free.

    Waits without limit for this user's other farms, in a fixed order; for other users at most
    `others_s`, holding nothing meanwhile. on_wait: called once with each holder.
    """
    folder = _made(lock_dir)
    tell = _Telling(on_wait)
    give_up: float | None = None
    while True:
        async with AsyncExitStack() as held:
            for core in sorted(cores):
                file, wait = _own_file(folder, core), partial(tell.waiting_for, core)
                await held.enter_async_context(exclusive(file, wait, retry_s))
            others = _held_by_others(folder, cores)
            if not others or (give_up is not None and time.monotonic() >= give_up):
                for core, holder in others.items():
                    _log.warning("core %d: measuring beside %s", core, holder)
                yield
                return
        give_up = give_up or time.monotonic() + others_s
        for core, holder in others.items():
            tell.waiting_for(core, holder)
        # A random time: agents that saw each other's locks must not collide again and again.
        await asyncio.sleep(retry_s * random.uniform(1, 2))


@contextmanager
def free_cores(cores: Collection[int], lock_dir: Path | None = None) -> Iterator[bool]:
    """Hold the lock of every given core if all are free now; yields whether they were."""
    folder = _made(lock_dir)
    with ExitStack() as held:
        files = (_own_file(folder, core) for core in sorted(cores))
        yield all(held.enter_context(exclusive_now(file)) for file in files) and not (
            _held_by_others(folder, cores)
        )


def as_progress(on_progress: Callable[[Progress], None]) -> Callable[[str], None]:
    """Return a callback that reports a wait as a run's progress."""
    return lambda said: on_progress(Progress(phase=said, done=0, total=1))


class _Telling:
    """Reports each holder once."""

    def __init__(self, on_wait: Callable[[str], None] | None) -> None:
        self._on_wait = on_wait
        self._told: set[tuple[int, Holder | None]] = set()

    def waiting_for(self, core: int, holder: Holder | None) -> None:
        if (core, holder) in self._told:
            return
        self._told.add((core, holder))
        said = f"{WAIT_FOR_CORE} {core}, which {holder or 'another process'} holds"
        _log.warning(said)
        if self._on_wait:
            self._on_wait(said)


def _made(lock_dir: Path | None) -> Path:
    if lock_dir is None:
        return lock_folder()
    lock_dir.mkdir(parents=True, exist_ok=True)
    return lock_dir


def _own_file(folder: Path, core: int) -> Path:
    """Return this user's file for a core, created if necessary; another name if somebody else has a
    file there."""
    name, number = _NAME.format(core=core, uid=os.geteuid()), 0
    while not is_own(file := folder / (f"{name}.{number}" if number else name)):
        number += 1
    return file


def _held_by_others(folder: Path, cores: Collection[int]) -> dict[int, Holder]:
    """Return the cores that others hold, with the holder of each."""
    held, found = flocks(), dict[int, Holder]()
    for core in sorted(cores):
        own = _own_file(folder, core)
        for file in folder.glob(_NAME.format(core=core, uid="*")):
            if file != own and (holder := holder_of(file, held)):
                found[core] = holder
    return found
