"""How much memory a process can have: this host's, or less if a control group limits it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

CGROUPS = Path("/sys/fs/cgroup")
OWN_CGROUPS = Path("/proc/self/cgroup")
MEMINFO = Path("/proc/meminfo")


@dataclass(frozen=True, slots=True)
class _Names:
    """The files of a control group in one version of cgroups(7)."""

    limits: tuple[str, ...]
    """The limit beyond which processes are killed, and others from which they are slowed down."""
    usage: str
    reclaimable: tuple[str, ...]
    """Lines of memory.stat: pages of files, which the kernel takes back when memory is wanted."""


_FIRST = _Names(
    ("memory.limit_in_bytes",),
    "memory.usage_in_bytes",
    ("total_inactive_file", "total_active_file"),
)
_SECOND = _Names(("memory.max", "memory.high"), "memory.current", ("inactive_file", "active_file"))


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
    try:
        lines = (group / "memory.stat").read_text().splitlines()
    except OSError:
        return 0
    fields = (line.split() for line in lines)
    return sum(int(value) for name, value in fields if name in names.reclaimable)
