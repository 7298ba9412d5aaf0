"""The host cores of a phone, and what the phone shows of them."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from pathlib import Path

from agents.virtual_phone.errors import PhoneOptionsInvalid

HOST_CPUS = Path("/sys/devices/system/cpu")


def parse_cores(text: str) -> tuple[int, ...]:
    """Parse a list in the kernel's format such as `0,2-3`; raises PhoneOptionsInvalid."""
    try:
        ranges = [part.partition("-")[::2] for part in text.split(",")]
        cores = {c for low, high in ranges for c in range(int(low), int(high or low) + 1)}
    except ValueError as error:
        raise PhoneOptionsInvalid(
            f"read cores {text!r}", str(error), "Write a list such as 0,2-3."
        ) from error
    return tuple(sorted(cores))


def choose_cores(
    wanted: Sequence[int] | None, count: int, free: Collection[int]
) -> tuple[int, ...]:
    """Return the cores in `wanted`, else the first `count` of those that this process may use.

    Raises PhoneOptionsInvalid if this process may not use them, or too few.
    """
    cores = tuple(wanted) if wanted else tuple(sorted(free))[:count]
    if missing := sorted(set(cores) - set(free)):
        seen = f"this process may use only {sorted(free)}"
        raise PhoneOptionsInvalid(
            f"pin a virtual phone to cores {missing}", seen, "Choose among those."
        )
    if not wanted and len(cores) < count:
        seen = f"this process may use {len(cores)} only"
        remedy = "Name the cores to use, or choose a smaller profile."
        raise PhoneOptionsInvalid(f"give a virtual phone {count} cores", seen, remedy)
    return cores


def sysfs_of(cores: Sequence[int], host: Path = HOST_CPUS) -> dict[Path, str]:
    """Return the files of a phone's /sys/devices/system/cpu, by relative path.

    Cores keep their host numbers, so that they agree with the phone's affinity, and with the host's
    topology and caches.
    """
    listed = ",".join(map(str, sorted(cores)))
    files = {Path(name): listed for name in ("present", "possible", "online")}
    for core in cores:
        files[Path(f"cpu{core}/online")] = "1"
        for part in ("topology", "cache"):
            files |= {p.relative_to(host): text for p, text in _texts(host / f"cpu{core}/{part}")}
    return files


def _texts(folder: Path) -> Iterator[tuple[Path, str]]:
    for path in sorted(folder.rglob("*")):
        if path.is_file():
            try:
                yield path, path.read_text().rstrip("\n")
            except (OSError, UnicodeDecodeError):  # not every user can read all of sysfs
                continue
