"""What a bundle is made of: pinned packages and what is left out of them, as data."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from agents.transports.exit_reason import signal_name
from controller.contracts.base import Contract
from controller.contracts.documents import load_yaml, read_limited
from controller.contracts.errors import UserError
from controller.contracts.unreadable import UNREADABLE, reason

FOLDER: Final = Path(__file__).parent


class BundleUnbuildable(UserError):
    """A bundle that can't be made: no recipe, a package out of reach, a disk that is full."""


class BundleInterrupted(BundleUnbuildable):
    """A program that makes a bundle was killed: trying again can help."""


def raise_if_killed(program: str, returncode: int) -> None:
    """Raise BundleInterrupted for an exit status of subprocess that tells of a signal."""
    if returncode < 0:
        seen = f"it was killed by {signal_name(-returncode)}"
        raise BundleInterrupted(program, seen, "build again")


class DebianPins(Contract):
    """Packages of one Debian release."""

    arch: str
    """Debian's word for the architecture."""
    release: str
    packages: dict[str, str]
    """Name → version; a `*` at its end lets updates in."""


class WheelPin(Contract):
    """One wheel, to the bit."""

    version: str
    sha256: str


class WheelPins(Contract):
    """Wheels of one platform."""

    platforms: tuple[str, ...]
    """Platform tags that the bundle's libc satisfies."""
    packages: dict[str, WheelPin]


class LeaveOut(Contract):
    """Glob patterns of files that stay out, relative to the standard library or the wheel."""

    stdlib: tuple[str, ...]
    wheels: tuple[str, ...]


class Recipe(Contract):
    """The data file of one runtime on one architecture."""

    runtime: str
    arch: str
    python: str
    """Major and minor version of CPython."""
    loader: str
    """File name of the dynamic loader that starts CPython."""
    debian: DebianPins
    libraries: tuple[str, ...]
    wheels: WheelPins
    leave_out: LeaveOut

    @property
    def name(self) -> str:
        """What its bundles' names begin with."""
        return f"{self.runtime}-{self.arch}"


def load_recipe(runtime: str, arch: str) -> Recipe:
    """Read a recipe; raises BundleUnbuildable if there is none."""
    known = sorted(path.stem for path in FOLDER.glob("*.yaml"))
    name = f"{runtime}-{arch}"
    if name not in known:
        raise BundleUnbuildable(
            f"building the bundle {name}",
            "there is no recipe for it",
            f"known: {', '.join(known)}; see docs/mobile.md, Runtimes",
        )
    path = FOLDER / f"{name}.yaml"
    try:
        return Recipe.model_validate(load_yaml(read_limited(path)))
    except UNREADABLE as error:
        raise BundleUnbuildable(
            f"reading {path}", reason(error), "mend the file or reinstall benchfarm"
        ) from error
