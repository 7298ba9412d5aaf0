"""The control groups of this process, in both versions of cgroups(7). The standard library only,
since runners on devices have it, too."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Final, Literal

CGROUPS: Final = Path("/sys/fs/cgroup")
OWN_CGROUPS: Final = Path("/proc/self/cgroup")
Controller = Literal["cpu", "memory"]


def control_groups(
    controller: Controller, own: Path = OWN_CGROUPS, root: Path = CGROUPS
) -> Iterator[tuple[Path, bool]]:
    """Yield the folders of this process's control groups of a controller, and of their parents;
    each with whether it is of the first version."""
    try:
        lines = own.read_text(errors="replace").splitlines()
    except OSError:
        return
    for _, controllers, place in (line.split(":", 2) for line in lines if line.count(":") > 1):
        if controllers and controller not in controllers.split(","):
            continue
        top = root / controller if controllers else root
        folder = top / place.strip("/")
        for each in (folder, *folder.parents):
            if each.is_relative_to(top):
                yield each, bool(controllers)


def number_in(file: Path) -> int | None:
    """Return the number in a file; None for a word such as `max` and for a missing file."""
    return number_of(text_of(file))


def numbers_in(file: Path) -> dict[str, int]:
    """Return the numbers in a file of lines `name number`; none if it is missing."""
    pairs = [pair for line in text_of(file).splitlines() if len(pair := line.split()) == 2]
    return {name: number for name, text in pairs if (number := number_of(text)) is not None}


def number_of(text: str) -> int | None:
    """Return a whole number; None for anything else."""
    try:
        return int(text)
    except ValueError:
        return None


def text_of(file: Path) -> str:
    """Return what a file says; nothing if it can't be read."""
    try:
        return file.read_text(errors="replace")
    except OSError:
        return ""
