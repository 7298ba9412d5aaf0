"""How much memory a process can have: this host's, or less if a control group limits it; and
whether the kernel has killed one for it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

CGROUPS = Path("/sys/fs/cgroup")
OWN_CGROUPS = Path("/proc/self/cgroup")
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
    limits = (_number(group / names.limits[0]) for group, names in _groups(own, root))
    return min((limit for limit in limits if limit is not None), default=None)


def available_bytes(own: Path = OWN_CGROUPS, root: Path = CGROUPS) -> int:
    """Return the bytes that this process can still have without swapping, or being slowed down or
    killed for them; raises OSError if the kernel doesn't tell."""
    left = [_available_on_host()]
    for group, names in _groups(own, root):
        used = _number(group / names.usage)
        if used is not None:
            used -= _reclaimable(group, names)
            limits = (_number(group / name) for name in names.limits)
            left += [limit - used for limit in limits if limit is not None]
    return max(0, min(left))


def oom_kills(own: Path = OWN_CGROUPS, root: Path = CGROUPS, vmstat: Path = VMSTAT) -> int:
    """Return how many processes of this one's control group the kernel has killed for memory.

    The children of a process are in its group, and those of other containers are not. Where groups
    don't count, it is the number of this host since boot.
    """
    counts = (_fields(group / names.events).get("oom_kill") for group, names in _groups(own, root))
    of_group = next((count for count in counts if count is not None), None)
    return _fields(vmstat).get("oom_kill", 0) if of_group is None else of_group


def _groups(own: Path, root: Path) -> Iterator[tuple[Path, _Names]]:
    """Yield the folders of this process's control groups for memory, and of their parents."""
    try:
        lines = own.read_text().splitlines()
    except OSError:
        return
    for line in lines:
        _, controllers, place = line.split(":", 2)
        if controllers and "memory" not in controllers.split(","):
            continue
        top, names = (root / "memory", _FIRST) if controllers else (root, _SECOND)
        folder = top / place.strip("/")
        for each in (folder, *folder.parents):
            if each.is_relative_to(top):
                yield each, names


def _available_on_host() -> int:
    for line in MEMINFO.read_text().splitlines():
        if line.startswith("MemAvailable:"):
            return int(line.split()[1]) * 1024
    raise OSError(f"{MEMINFO} has no MemAvailable")


def _number(file: Path) -> int | None:
    """Return the number in a file; None for `max` and for a missing file."""
    try:
        text = file.read_text().strip()
    except OSError:
        return None
    return int(text) if text.isdecimal() else None


def _reclaimable(group: Path, names: _Names) -> int:
    fields = _fields(group / "memory.stat")
    return sum(fields.get(name, 0) for name in names.reclaimable)


def _fields(file: Path) -> dict[str, int]:
    """Return the numbers in a file of lines `name number`; none if it is missing."""
    try:
        lines = file.read_text().splitlines()
    except OSError:
        return {}
    pairs = (line.split() for line in lines)
    return {pair[0]: int(pair[1]) for pair in pairs if len(pair) == 2 and pair[1].isdecimal()}
