"""The CPU quota of a phone, where a cgroup of version 2 is writable."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

PERIOD_US = 100_000


@dataclass(frozen=True, slots=True)
class Quota:
    """The outcome of setting a quota."""

    enforced: bool
    reason: str
    """Why it is not enforced; empty if it is."""
    cgroup: Path | None = None


def candidates(mountinfo: str, membership: str) -> tuple[Path, ...]:
    """Return where a cgroup may be created: below this process's own, or beside it.

    `mountinfo` and `membership` are the texts of /proc/self/mountinfo and /proc/self/cgroup; there
    may be no cgroups of version 2.
    """
    path = next((li[3:] for li in membership.splitlines() if li.startswith("0::/")), None)
    for line in mountinfo.splitlines():
        before, _, after = line.partition(" - ")
        if path is not None and after.startswith("cgroup2 "):
            mounted = Path(before.split()[4])
            own = mounted / path.lstrip("/")
            return (own,) if own == mounted else (own, own.parent)
    return ()


def limit(name: str, cores: float, parents: Sequence[Path]) -> Quota:
    """Move this process into a new cgroup with this many cores, below the first parent that allows
    it."""
    reason = "no cgroup of version 2 is mounted"
    for parent in parents:
        mine = parent / name
        try:
            if "cpu" not in (parent / "cgroup.subtree_control").read_text().split():
                reason = f"{parent} hands the cpu controller to no child"
                continue
            mine.mkdir(exist_ok=True)
            (mine / "cpu.max").write_text(f"{round(cores * PERIOD_US)} {PERIOD_US}")
            (mine / "cgroup.procs").write_text(str(os.getpid()))
        except OSError as error:
            reason = f"{mine}: {error.strerror}"
            continue
        return Quota(True, "", mine)
    return Quota(False, reason)
