"""Packages of PyPI that this repository pins: the lock, torch, the build backend, the
environments of stacks, and what bundles for phones are made of."""

from __future__ import annotations

import tomllib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

from packaging.requirements import InvalidRequirement, Requirement
from packaging.utils import canonicalize_name
from packaging.version import InvalidVersion, Version

from agents.inference.bundle.recipe import (
    BundleUnbuildable,
    files_of,
    recipe_named,
    recipe_names,
)

ROOT = Path(__file__).parents[2]
LOCK = Path("requirements/lock.txt")
PROJECT = Path("pyproject.toml")
STACK_LOCKS = Path("agents/stacks/locks")
BUNDLES = Path("agents/inference/bundle")


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
        LockUnreadable: a lock or recipe can't be read, or a line of a lock is no pin.

    """
    found = [*_pins_of_project(root), *_pins_of_file(root, LOCK)]
    for path in sorted((root / STACK_LOCKS).glob("*.txt")):
        found += _pins_of_file(root, path.relative_to(root))
    found += _pins_of_bundles(root)
    places: dict[tuple[str, Version], list[str]] = {}
    for pin in found:
        places.setdefault((pin.name, pin.version), []).extend(pin.places)
    return tuple(sorted(Pin(*key, tuple(dict.fromkeys(where))) for key, where in places.items()))


def _pins_of_project(root: Path) -> Iterator[Pin]:
    """Yield torch and what builds the wheel: the lock has neither."""
    project = tomllib.loads((root / PROJECT).read_text())
    extra = project["project"]["optional-dependencies"]["torch"]
    torch = [requirement for requirement in extra if requirement.startswith("torch==")]
    backend = project.get("build-system", {}).get("requires", [])
    return _pins_in([*torch, *backend], str(PROJECT))


def _pins_of_bundles(root: Path) -> Iterator[Pin]:
    folder = root / BUNDLES
    try:
        for recipe in [recipe_named(name, folder) for name in recipe_names(folder)]:
            places = tuple(str(path.relative_to(ROOT)) for path in files_of(recipe))
            for name, wheel in recipe.of_pypi.items():
                yield Pin(canonicalize_name(name), Version(wheel.version), places)
    except BundleUnbuildable as error:
        raise LockUnreadable(str(error)) from error


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
