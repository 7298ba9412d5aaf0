"""A limit to the memory of what a test starts: a memory cgroup of its own, of version 1 or 2.

The kernel's OOM killer strikes inside it as it does on a host that is full, and whoever looks at
/sys/fs/cgroup sees this limit, as in a container. Needs root.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.support.waiting import eventually

CGROUPS = Path("/sys/fs/cgroup")


@dataclass(frozen=True, slots=True)
class LimitedMemory:
    """A group of processes that share some memory."""

    within: tuple[str, ...]
    """A prefix: commands after it are of the group."""
    _events: Path

    def kills(self) -> int:
        """Return how many processes of the group the kernel has ended for their memory."""
        counts = dict(line.split() for line in self._events.read_text().splitlines())
        return int(counts["oom_kill"])


@contextmanager
def limited_memory(limit_bytes: int) -> Iterator[LimitedMemory]:
    """Limit the memory of what is started in a group. Skips where there can be no limit.

    What it started must have ended by the end of the context.
    """
    top, limit, events = _version()
    group = top / f"benchfarm-test-{os.getpid()}"
    enter = f'echo $$ >{group}/cgroup.procs && mount -n --bind {group} {top} && exec "$@"'
    with _or_skip():
        group.mkdir()
    try:
        with _or_skip():
            (group / limit).write_text(f"{limit_bytes}")
        within = ("unshare", "--mount", "sh", "-c", enter, "limited")
        yield LimitedMemory(within, group / events)
    finally:
        eventually(lambda: _removed(group), f"{group} without processes")


@contextmanager
def _or_skip() -> Iterator[None]:
    try:
        yield
    except OSError as error:
        pytest.skip(f"memory can't be limited here: {error}")


def _version() -> tuple[Path, str, str]:
    """Return where the kernel's groups for memory are, and a group's files of its limit and of what
    the kernel did about it."""
    first = CGROUPS / "memory"
    if first.exists():
        return first, "memory.limit_in_bytes", "memory.oom_control"
    return CGROUPS, "memory.max", "memory.events"


def _removed(group: Path) -> bool:
    """Remove a group; False if it holds a process that has been killed and is not quite gone."""
    try:
        group.rmdir()
    except OSError as error:
        if error.errno != errno.EBUSY:
            raise
        return False
    return True
