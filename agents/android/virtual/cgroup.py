"""A share of the cores for a phone, where a cgroup of version 2 may be written."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

PERIOD_US = 100_000


@dataclass(frozen=True, slots=True)
class Quota:
    """What came of asking for a share."""

    enforced: bool
    reason: str
    """Why it is not enforced; empty if it is."""
    cgroup: Path | None = None


def own_cgroup(mountinfo: str, membership: str) -> Path | None:
    """Return this process's cgroup of version 2, None if there is none.

    `mountinfo` and `membership` are the texts of /proc/self/mountinfo and /proc/self/cgroup.
    """
    path = next((li[3:] for li in membership.splitlines() if li.startswith("0::/")), None)
    for line in mountinfo.splitlines():
        before, _, after = line.partition(" - ")
        if path is not None and after.startswith("cgroup2 "):
            return Path(before.split()[4]) / path.lstrip("/")
    return None


def limit(name: str, cores: float, group: Path | None) -> Quota:
    """Move this process into a new cgroup below `group` (or beside it) of so many cores."""
    if group is None:
        return Quota(False, "no cgroup of version 2 is mounted")
    seen = ""
    for parent in (group, group.parent):
        mine = parent / name
        try:
            if "cpu" not in (parent / "cgroup.subtree_control").read_text().split():
                seen = seen or f"{parent} hands the cpu controller to no child"
                continue
            mine.mkdir(exist_ok=True)
            (mine / "cpu.max").write_text(f"{round(cores * PERIOD_US)} {PERIOD_US}")
            (mine / "cgroup.procs").write_text(str(os.getpid()))
        except OSError as error:
            seen = f"{mine}: {error.strerror}"
            continue
        return Quota(True, "", mine)
    return Quota(False, seen)
