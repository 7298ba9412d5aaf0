"""Locks between the processes of a machine; the kernel releases one when its holder ends."""

from __future__ import annotations

import asyncio
import errno
import fcntl
import os
import pwd
import stat
import time
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

RETRY_S = 1.0
"""Nothing of ours is measured while a lock is waited for."""
ASK_S = 1.0
"""Wait for one who only asks; it holds a lock for microseconds, unless it is stopped."""
ASK_AGAIN_S = 0.001
LOCKS = Path("/proc/locks")
SHOWN = 80
"""Characters shown of a command."""
Flocks = Mapping[tuple[int, int, int], int]
"""(Major, minor number of the device, inode) → process that holds the file's lock."""


@dataclass(frozen=True, slots=True)
class Holder:
    """A process that holds a lock, and the user of the lock's file."""

    pid: int
    """0 for a process in a container that this process cannot see into."""
    uid: int

    def __str__(self) -> str:
        """Return process and user, with the command if it can be read."""
        try:
            user = pwd.getpwuid(self.uid).pw_name
        except KeyError:
            user = str(self.uid)
        try:
            words = Path(f"/proc/{self.pid}/cmdline").read_bytes().split(b"\0")
        except OSError:
            words = []
        text = b" ".join(words).decode(errors="replace").strip()[:SHOWN]
        shown = "".join(c if c.isprintable() else "?" for c in text)
        return f"process {self.pid} of user {user}" + (f" ({shown})" if shown else "")


@asynccontextmanager
async def exclusive(
    file: Path,
    on_wait: Callable[[Holder | None], None] | None = None,
    retry_s: float = RETRY_S,
) -> AsyncIterator[None]:
    """Hold a file's lock; waits until it is free. on_wait: called with its holder at every try."""
    descriptor = _open(file)
    try:
        # Tries again and again: a blocked thread couldn't be cancelled.
        while not _take(descriptor, ask_s=0.0):
            if on_wait:
                on_wait(holder_of(file, flocks()))
            await asyncio.sleep(retry_s)
        yield
    finally:
        os.close(descriptor)


@contextmanager
def exclusive_in_thread(file: Path) -> Iterator[None]:
    """Hold a file's lock; blocks until it is free."""
    descriptor = _open(file)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)


@contextmanager
def exclusive_now(file: Path, ask_s: float = ASK_S) -> Iterator[bool]:
    """Hold a file's lock if nobody holds it now; yields whether it is held.

    ask_s: how long one who only asks (`is_locked`) is waited for.
    """
    descriptor = _open(file)
    try:
        yield _take(descriptor, ask_s)
    finally:
        os.close(descriptor)


def lock_while_alive(folder: Path) -> None:
    """Lock a folder until this process and all it forks have ended; raises BlockingIOError."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)  # the lock is its own: it stays open
    if not _take(descriptor):
        os.close(descriptor)
        raise BlockingIOError(errno.EAGAIN, os.strerror(errno.EAGAIN))


def is_locked(file: Path) -> bool:
    """Return whether another open file holds a file's lock; False if there is no such file.

    It takes a shared lock for a moment: /proc/locks hides the processes of other pid namespaces and
    hosts, and shows device numbers that differ from those of stat on overlayfs and btrfs.
    """
    try:
        descriptor = os.open(file, os.O_RDONLY | os.O_NOFOLLOW)
    except FileNotFoundError:
        return False
    try:
        return not _try_lock(descriptor, fcntl.LOCK_SH)  # two who ask don't stop each other
    finally:
        os.close(descriptor)


def is_own(file: Path) -> bool:
    """Return whether a file is this user's; makes it private, and creates it if it is missing."""
    with suppress(FileExistsError):
        os.close(os.open(file, os.O_CREAT | os.O_EXCL | os.O_RDONLY | os.O_NOFOLLOW, 0o600))
    found = file.lstat()
    if not stat.S_ISREG(found.st_mode) or found.st_uid != os.geteuid():
        return False
    file.chmod(0o600)
    return True


def flocks(table: Path = LOCKS) -> Flocks:
    """Return all locks of whole files that are held on this machine (proc_locks(5))."""
    found: dict[tuple[int, int, int], int] = {}
    try:
        lines = table.read_text().splitlines()
    except OSError:
        return found  # a kernel without /proc/locks: other users' locks are not seen
    for line in lines:
        match line.split():
            case [_, "FLOCK", _, _, pid, place, *_]:
                major, minor, inode = place.split(":")
                found[int(major, 16), int(minor, 16), int(inode)] = max(int(pid), 0)
    return found


def holder_of(file: Path, held: Flocks) -> Holder | None:
    """Return the known holder of a file's lock; None without one."""
    try:
        found = file.lstat()
    except OSError:
        return None
    device = os.major(found.st_dev), os.minor(found.st_dev)
    pid = held.get((*device, found.st_ino))
    return None if pid is None else Holder(pid, found.st_uid)


def _open(file: Path) -> int:
    # Reading is all that flock needs.
    return os.open(file, os.O_CREAT | os.O_RDONLY | os.O_NOFOLLOW, 0o600)


def _take(descriptor: int, ask_s: float = ASK_S) -> bool:
    """Lock a file; return whether it is locked, which it isn't if another has locked it.

    A lock that can be shared is of one who only asks, who is waited for.
    """
    latest_s = time.monotonic() + ask_s
    while not _try_lock(descriptor, fcntl.LOCK_EX):
        is_asked = _try_lock(descriptor, fcntl.LOCK_SH)
        fcntl.flock(descriptor, fcntl.LOCK_UN)
        if not is_asked or time.monotonic() > latest_s:
            return False
        time.sleep(ASK_AGAIN_S)
    return True


def _try_lock(descriptor: int, kind: int) -> bool:
    try:
        fcntl.flock(descriptor, kind | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True
