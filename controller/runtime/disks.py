"""Free space on the disks that a farm writes to."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from controller.contracts.checks import Check, Health
from controller.contracts.disk import LEAST_FREE_BYTES
from controller.contracts.errors import HomeUnusable

GIB: Final = 1 << 30
AMPLE_DISK_BYTES: Final = 2 * GIB
"""Enough for bundles, logs and results of some weeks."""
LEAST_FILES: Final = 10_000
LARGER: Final = "Make room there, or point BENCHFARM_HOME and TMPDIR at folders on larger disks."


@dataclass(frozen=True, slots=True)
class DiskFacts:
    """Free space on the file system of a folder."""

    folder: Path
    free_bytes: int
    free_files: int | None
    """None if the file system has no limit on files."""


DiskReader = Callable[[Path], DiskFacts]


def disk_facts(folder: Path) -> DiskFacts:
    """Return the free space for this user's files; raises OSError."""
    found = os.statvfs(folder)
    free = found.f_bavail * found.f_frsize
    return DiskFacts(folder, free, found.f_favail if found.f_files else None)


def disks_of(home: Path) -> Iterator[Path]:
    """Yield one folder for each file system that a farm of this home writes to."""
    seen = set[int]()
    for each in (nearest_folder(home), *_temporary_folder()):
        if (device := each.stat().st_dev) not in seen:
            seen.add(device)
            yield each


def _temporary_folder() -> Iterator[Path]:
    try:
        yield Path(tempfile.gettempdir())
    except OSError:  # no file can be written in any, such as on a full disk: named by the first
        yield nearest_folder(Path(os.environ.get("TMPDIR", "/tmp")))


def nearest_folder(path: Path) -> Path:
    """Return a folder, or the nearest one above it that exists."""
    return next(folder for folder in (path, *path.parents) if is_folder(folder))


def is_folder(path: Path) -> bool:
    """Return whether a path is a folder, as far as this user can see."""
    try:
        return path.is_dir()
    except OSError:  # in another user's folder
        return False


def disk_checks(disk: DiskFacts) -> Iterator[Check]:
    """Yield the checks of a disk's free space and files."""
    if disk.free_files is not None and disk.free_files < LEAST_FILES:
        seen = f"{disk.free_files} more files fit on the disk of {disk.folder}"
        remedy = "Delete files that nobody needs: df -i shows where."
        yield Check(what="disk", health=Health.MEND, seen=seen, remedy=remedy)
    free = f"{disk.free_bytes / GIB:.1f} GiB are free on the disk of {disk.folder}"
    if disk.free_bytes < LEAST_FREE_BYTES:
        seen = f"less than {LEAST_FREE_BYTES >> 20} MiB are free on the disk of {disk.folder}"
        remedy = "Delete what nobody needs: until then no run begins."
        yield Check(what="disk", health=Health.MEND, seen=seen, remedy=remedy)
    elif disk.free_bytes < AMPLE_DISK_BYTES:
        remedy = "Make room: bundles, logs and results need some GiB."
        yield Check(what="disk", health=Health.HINT, seen=free, remedy=remedy)
    else:
        yield Check(what="disk", health=Health.WELL, seen=free)


def require_room(home: Path, read: DiskReader = disk_facts) -> None:
    """Raise HomeUnusable unless the disks of a farm of this home have room for its files."""
    for disk in map(read, disks_of(home)):
        if disk.free_bytes < LEAST_FREE_BYTES:
            seen = (
                f"{disk.free_bytes >> 20} MiB are free on the disk of {disk.folder}, and a farm "
                f"needs {LEAST_FREE_BYTES >> 20} MiB"
            )
            raise HomeUnusable(f"start a farm in {home}", seen, LARGER)
