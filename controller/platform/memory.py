"""How much memory a process can have: this host's, or less if a control group limits it; and
whether the kernel has killed one for it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from controller.platform.control_groups import (
    CGROUPS,
    OWN_CGROUPS,
    control_groups,
    number_in,
    numbers_in,
)

MEMINFO = Path("/proc/meminfo")
VMSTAT = Path("/proc/vmstat")


@dataclass(frozen=True, slots=True)
class _Names:
    """The files of a control group in one version of cgroups(7)."""

    limits: tuple[str, ...]
    """The limit beyond which processes are killed, and others from which they are slowed down."""
    usage: str
    reclaimable: tuple[str, ...]
    """Lines of memory.stat: pages of files, which the kernel takes back when memory is wanted."""
    events: str
    """Has a line `oom_kill`: how many of the group's processes an OOM killer has ended."""


_FIRST = _Names(
    ("memory.limit_in_bytes",),
    "memory.usage_in_bytes",
    ("total_inactive_file", "total_active_file"),
    "memory.oom_control",
)
_SECOND = _Names(
    ("memory.max", "memory.high"),
    "memory.current",
    ("inactive_file", "active_file"),
    "memory.events",
)


def memory_limit(own: Path = OWN_CGROUPS, root: Path = CGROUPS) -> int | None:
    """Return the lowest memory limit of this process's control groups and their parents, in
    bytes."""
    limits = (number_in(group / names.limits[0]) for group, names in _groups(own, root))
    return min((limit for limit in limits if limit is not None), default=None)


def available_bytes(own: Path = OWN_CGROUPS, root: Path = CGROUPS) -> int:
    """Return the bytes that this process can still have without swapping, or being slowed down or
    killed for them; raises OSError if the kernel doesn't tell."""
    left = [_available_on_host()]
    for group, names in _groups(own, root):
        used = number_in(group / names.usage)
        if used is not None:
            used -= _reclaimable(group, names)
            limits = (number_in(group / name) for name in names.limits)
            left += [limit - used for limit in limits if limit is not None]
    return max(0, min(left))


def oom_kills(own: Path = OWN_CGROUPS, root: Path = CGROUPS, vmstat: Path = VMSTAT) -> int:
    """Return how many processes of this one's control group the kernel has killed for memory.

    The children of a process are in its group, and those of other containers are not. Where groups
    don't count, it is the number of this host since boot.
    """
    counts = (
        numbers_in(group / names.events).get("oom_kill") for group, names in _groups(own, root)
    )
    of_group = next((count for count in counts if count is not None), None)
    return numbers_in(vmstat).get("oom_kill", 0) if of_group is None else of_group


def _groups(own: Path, root: Path) -> Iterator[tuple[Path, _Names]]:
    """Yield the folders of this process's control groups for memory, and of their parents."""
    for folder, is_first in control_groups("memory", own, root):
        yield folder, _FIRST if is_first else _SECOND


def _available_on_host() -> int:
    for line in MEMINFO.read_text().splitlines():
        if line.startswith("MemAvailable:"):
            return int(line.split()[1]) * 1024
    raise OSError(f"{MEMINFO} has no MemAvailable")


def _reclaimable(group: Path, names: _Names) -> int:
    fields = numbers_in(group / "memory.stat")
    return sum(fields.get(name, 0) for name in names.reclaimable)
