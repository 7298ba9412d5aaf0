"""Recipes of bundles as data: pinned packages, and the files to leave out."""

from __future__ import annotations

from pathlib import Path
from typing import Final, TypeVar

from controller.contracts.base import Contract
from controller.contracts.documents import load_yaml, read_limited
from controller.contracts.errors import UserError
from controller.contracts.unreadable import UNREADABLE, reason
from controller.platform.processes import signal_name

FOLDER: Final = Path(__file__).parent
COMMON: Final = "common.yaml"
ARCHS: Final = "architectures"
RUNTIMES: Final = "runtimes"
"""In a folder of recipes: what all share, and a file for each architecture and each runtime."""

_Document = TypeVar("_Document", bound=Contract)


class BundleUnbuildable(UserError):
    """A bundle that can't be built: no recipe, an unreachable package, a full disk."""


class BundleInterrupted(BundleUnbuildable):
    """A bundle whose build failed because a program was killed; another attempt may succeed."""


def raise_if_killed(program: str, returncode: int) -> None:
    """Raise BundleInterrupted if a return code of subprocess means a signal."""
    if returncode < 0:
        seen = f"the program was killed by {signal_name(-returncode)}"
        raise BundleInterrupted(program, seen, "Build it again.")


class DebianPins(Contract):
    """Packages of one Debian release."""

    arch: str
    """Debian's name of the architecture."""
    release: str
    packages: dict[str, str]
    """Name → version; a trailing `*` lets in updates."""


class WheelPin(Contract):
    """One wheel, pinned by checksum."""

    version: str
    sha256: str


class WheelPins(Contract):
    """Wheels of one platform."""

    platforms: tuple[str, ...]
    """Platform tags that the bundle's libc satisfies."""
    packages: dict[str, WheelPin]


class SourcePin(Contract):
    """A source package with one C++ extension module, and its compiler."""

    package: str
    version: str
    sha256: str
    module: str
    """Name by which Python imports it."""
    sources: tuple[str, ...]
    """Glob patterns, relative to the package."""
    macros: tuple[str, ...]
    flags: tuple[str, ...]
    tools: dict[str, WheelPin]
    """Wheels for the building host: compiler and headers."""
    headers: dict[str, str]
    """Debian packages for the bundle's architecture, as in DebianPins."""


class LeaveOut(Contract):
    """Glob patterns of files to leave out, relative to the standard library or the wheel."""

    stdlib: tuple[str, ...]
    wheels: tuple[str, ...]


class Compilation(Contract):
    """A package to compile, for an architecture that has no wheel of it."""

    source: SourcePin
    target: str
    """The compiler's name of architecture and libc."""


class _Wheel(Contract):
    """One version of a wheel for each architecture."""

    version: str
    sha256: dict[str, str]


class _Common(Contract):
    """Settings shared by all bundles: `common.yaml`."""

    python: str
    release: str
    debian: dict[str, str]
    libraries: tuple[str, ...]
    wheels: dict[str, _Wheel]
    source: SourcePin
    leave_out: tuple[str, ...]
    leave_out_of_wheels: tuple[str, ...]


class _Architecture(Contract):
    """A file in `architectures`."""

    debian: str
    loader: str
    machine: int
    page_bytes: int
    platforms: tuple[str, ...]
    target: str | None = None


class _Runtime(Contract):
    """A file in `runtimes`."""

    wheels: dict[str, _Wheel]
    leave_out: tuple[str, ...]


class Recipe(Contract):
    """The contents of one runtime's bundle for one architecture."""

    runtime: str
    arch: str
    python: str
    """Major and minor version of CPython."""
    loader: str
    """File name of the dynamic loader that starts CPython."""
    machine: int
    """`e_machine` of all its ELF files."""
    page_bytes: int
    """Largest page size of the kernels that load them."""
    debian: DebianPins
    libraries: tuple[str, ...]
    wheels: WheelPins
    compiled: Compilation | None
    leave_out: LeaveOut

    @property
    def name(self) -> str:
        """Prefix of the names of its bundles."""
        return f"{self.runtime}-{self.arch}"

    @property
    def of_pypi(self) -> dict[str, WheelPin]:
        """All packages from PyPI, compilers included."""
        packages = dict(self.wheels.packages)
        if self.compiled:
            source = self.compiled.source
            packages |= source.tools
            packages[source.package] = WheelPin(version=source.version, sha256=source.sha256)
        return packages

    @property
    def of_debian(self) -> dict[str, str]:
        """All packages from Debian."""
        headers = self.compiled.source.headers if self.compiled else {}
        return self.debian.packages | headers


def recipe_names(folder: Path = FOLDER) -> list[str]:
    """Return the names of all recipes, `<runtime>-<arch>`."""
    runtimes, archs = _stems(folder / RUNTIMES), _stems(folder / ARCHS)
    return sorted(f"{runtime}-{arch}" for runtime in runtimes for arch in archs)


def load_recipe(runtime: str, arch: str, folder: Path = FOLDER) -> Recipe:
    """Return the recipe for a runtime and architecture; raises BundleUnbuildable if there is
    none."""
    return recipe_named(f"{runtime}-{arch}", folder)


def recipe_named(name: str, folder: Path = FOLDER) -> Recipe:
    """Return the recipe `<runtime>-<arch>`; raises BundleUnbuildable if there is none."""
    runtime, _, arch = name.partition("-")
    if name not in (known := recipe_names(folder)):
        raise BundleUnbuildable(
            f"build bundle {name}",
            "there is no recipe for it",
            f"Choose one of {', '.join(known)}; docs/mobile.md, Runtimes, explains them.",
        )
    return _put_together(
        runtime,
        arch,
        _read(folder / COMMON, _Common),
        _read(folder / ARCHS / f"{arch}.yaml", _Architecture),
        _read(folder / RUNTIMES / f"{runtime}.yaml", _Runtime),
    )


def files_of(recipe: Recipe) -> tuple[Path, ...]:
    """Return the files that define a recipe."""
    parts = (COMMON, f"{ARCHS}/{recipe.arch}.yaml", f"{RUNTIMES}/{recipe.runtime}.yaml")
    return tuple(FOLDER / part for part in parts)


def _put_together(
    runtime: str, arch: str, common: _Common, architecture: _Architecture, own: _Runtime
) -> Recipe:
    source, target = common.source, architecture.target
    pins = common.wheels | own.wheels
    lacking = [name for name, wheel in pins.items() if arch not in wheel.sha256]
    if unknown := [name for name in lacking if not (target and name == source.package)]:
        raise BundleUnbuildable(
            f"read recipe {runtime}-{arch}",
            f"no wheel of {', '.join(unknown)} is pinned for it",
            f"Add its checksum to {arch}.",
        )
    wheels = {
        name: WheelPin(version=wheel.version, sha256=wheel.sha256[arch])
        for name, wheel in pins.items()
        if name not in lacking
    }
    return Recipe(
        runtime=runtime,
        arch=arch,
        python=common.python,
        loader=architecture.loader,
        machine=architecture.machine,
        page_bytes=architecture.page_bytes,
        debian=DebianPins(arch=architecture.debian, release=common.release, packages=common.debian),
        libraries=(architecture.loader, *common.libraries),
        wheels=WheelPins(platforms=architecture.platforms, packages=wheels),
        compiled=Compilation(source=source, target=target) if lacking and target else None,
        leave_out=LeaveOut(
            stdlib=common.leave_out, wheels=(*common.leave_out_of_wheels, *own.leave_out)
        ),
    )


def _stems(folder: Path) -> list[str]:
    return [path.stem for path in sorted(folder.glob("*.yaml"))]


def _read(path: Path, kind: type[_Document]) -> _Document:
    try:
        return kind.model_validate(load_yaml(read_limited(path)))
    except UNREADABLE as error:
        raise BundleUnbuildable(
            f"read {path}", reason(error), "Correct the file or reinstall benchfarm."
        ) from error
