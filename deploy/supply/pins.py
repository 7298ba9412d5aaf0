"""Packages of PyPI that this repository pins: the lock, torch, and the stacks' own environments."""

from __future__ import annotations

import tomllib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

from packaging.requirements import InvalidRequirement, Requirement
from packaging.utils import canonicalize_name
from packaging.version import InvalidVersion, Version

ROOT = Path(__file__).parents[2]
LOCK = Path("requirements/lock.txt")
PROJECT = Path("pyproject.toml")
STACK_LOCKS = Path("agents/stacks/locks")


class LockUnreadable(Exception):
    """A lock that can't be read, or doesn't pin: says which line, and why."""


@dataclass(frozen=True, slots=True, order=True)
class Pin:
    """One version of one package, and the files that pin it. The name is in PyPI's normal form."""

    name: str
    version: Version
    places: tuple[str, ...] = field(compare=False)


def pins_of(root: Path = ROOT) -> tuple[Pin, ...]:
    """Return every pinned version once, by name.

    Raises:
        LockUnreadable: a lock can't be read, or a line of it is no pin.

    """
    project = tomllib.loads((root / PROJECT).read_text())["project"]
    torch = [r for r in project["optional-dependencies"]["torch"] if r.startswith("torch==")]
    found = [*_pins_in(torch, str(PROJECT)), *_pins_of_file(root, LOCK)]
    for path in sorted((root / STACK_LOCKS).glob("*.txt")):
        found += _pins_of_file(root, path.relative_to(root))
    places: dict[tuple[str, Version], list[str]] = {}
    for pin in found:
        places.setdefault((pin.name, pin.version), []).extend(pin.places)
    return tuple(sorted(Pin(*key, tuple(where)) for key, where in places.items()))


def _pins_of_file(root: Path, path: Path) -> list[Pin]:
    try:
        lines = (root / path).read_text().splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise LockUnreadable(f"cannot read {path}: {error}. Make it anew: make lock.") from error
    return list(_pins_in(lines, str(path)))


def _pins_in(lines: Iterable[str], place: str) -> Iterator[Pin]:
    for number, line in enumerate(lines, 1):
        if text := line.partition("#")[0].strip():
            try:
                wanted = Requirement(text)
                (only,) = wanted.specifier
                if only.operator != "==":
                    raise InvalidRequirement(f"{only} is no exact version")
                version = Version(only.version)
            except (InvalidRequirement, InvalidVersion, ValueError) as error:
                why = str(error).splitlines()[0]
                raise LockUnreadable(
                    f"cannot read {place}: line {number}, {text[:60]!r}, is no NAME==VERSION: "
                    f"{why}. Make it anew: make lock."
                ) from error
            yield Pin(canonicalize_name(wanted.name), version, (place,))
