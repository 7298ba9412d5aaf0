"""The last-level caches that CPUs of this host can reach, as Linux describes them in sysfs."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator
from pathlib import Path
from typing import Final, NamedTuple

from controller.platform.control_groups import text_of

CPUS: Final = Path("/sys/devices/system/cpu")
_SIZE: Final = re.compile(r"([0-9]{1,9})([KMG]?)")
_UNITS: Final = {"": 1, "K": 2**10, "M": 2**20, "G": 2**30}


class _Cache(NamedTuple):
    level: int
    size: int
    """In bytes."""
    shared: str
    """The CPUs that reach it, as the kernel lists them."""


def last_level_bytes(cpus: Collection[int], folder: Path = CPUS) -> int:
    """Return the sum of the last-level caches of some CPUs, each counted once.

    0 if the kernel describes none, as of some Arm boards. A virtual machine may be told those of
    its whole host.
    """
    last = {max(known) for cpu in cpus if (known := [*_caches(folder / f"cpu{cpu}/cache")])}
    return sum(cache.size for cache in last)


def _caches(folder: Path) -> Iterator[_Cache]:
    """Yield the caches of a CPU that hold data."""
    for index in folder.glob("index[0-9]*"):
        size = _SIZE.fullmatch(_said(index / "size"))
        level = _said(index / "level")
        if size and level.isdecimal() and _said(index / "type") != "Instruction":
            shared = _said(index / "shared_cpu_list") or folder.parent.name
            yield _Cache(int(level), int(size[1]) * _UNITS[size[2]], shared)


def _said(file: Path) -> str:
    return text_of(file).strip()
