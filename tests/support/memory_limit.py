"""A limit to the memory of what a test starts: a memory cgroup of its own, of version 1 or 2.

The kernel's OOM killer strikes inside it as it does on a host that is full, and whoever looks at
/sys/fs/cgroup sees this limit, as in a container. Needs root.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.support.waiting import eventually

CGROUPS = Path("/sys/fs/cgroup")


@contextmanager
def limited_memory(limit_bytes: int) -> Iterator[tuple[str, ...]]:
    """Give a prefix: commands after it share this much memory. Skips where there can be no limit.

    What it started must have ended by the end of the context.
    """
    top, limit = _version()
    group = top / f"benchfarm-test-{os.getpid()}"
    enter = f'echo $$ >{group}/cgroup.procs && mount -n --bind {group} {top} && exec "$@"'
    with _or_skip():
        group.mkdir()
    try:
        with _or_skip():
            (group / limit).write_text(f"{limit_bytes}")
        yield ("unshare", "--mount", "sh", "-c", enter, "limited")
    finally:
        eventually(lambda: _removed(group), f"{group} without processes")


@contextmanager
def _or_skip() -> Iterator[None]:
    try:
        yield
    except OSError as error:
        pytest.skip(f"memory can't be limited here: {error}")


def _version() -> tuple[Path, str]:
    """Return where the kernel's groups for memory are, and the file of a group's limit."""
    first = CGROUPS / "memory"
    return (first, "memory.limit_in_bytes") if first.exists() else (CGROUPS, "memory.max")


def _removed(group: Path) -> bool:
    """Remove a group; False if it holds a process that has been killed and is not quite gone."""
    try:
        group.rmdir()
    except OSError as error:
        if error.errno != errno.EBUSY:
            raise
        return False
    return True
