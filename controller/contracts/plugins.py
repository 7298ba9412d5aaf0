"""Plugins: installed packages that bring manifests of their own, found without importing them.

A plugin declares an entry point whose value is the name of its package: `importlib.metadata` reads
that from a file, and finding a package that is in no other one executes none of its code.
"""

from __future__ import annotations

import csv
import hashlib
import json
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from importlib.metadata import Distribution, EntryPoints, distributions
from importlib.util import find_spec
from pathlib import Path
from typing import Annotated, Final, Literal

from pydantic import Field, ValidationError

from controller.contracts.base import Contract
from controller.contracts.documents import short

GROUP: Final = "benchfarm.manifests"
"""The group of the entry point by which a package is a plugin."""
OURS: Final = ("controller", "agents", "models", "kernels")
"""The packages of benchfarm itself."""
READ: Final = frozenset({".py", ".yaml", ".so"})
"""Endings of files whose content decides what a plugin does; of others, the size is looked at."""
CACHE: Final = "__pycache__"
DIGITS: Final = 8
"""Hex digits of a plugin's digest."""


class Plugin(Contract):
    """An installed distribution that brings manifests of its own."""

    distribution: Annotated[str, Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$")]
    version: Annotated[str, Field(pattern=r"^[A-Za-z0-9.+!_-]{1,64}$")]
    package: str
    """The name by which it is imported."""
    digest: str
    """Of its files; see `files_digest`."""

    @property
    def named(self) -> str:
        """Its distribution and version, as text."""
        return f"{self.distribution} {self.version}"

    @property
    def recorded(self) -> str:
        """The same with the digest of its files, as results and cells have it."""
        return recorded(self.named, self.digest)


def recorded(named: str, digest: str) -> str:
    """Return what a result says of a plugin: its name and version, and the digest of its files."""
    return f"{named} ({digest})"


class LeftOut(Contract):
    """A plugin, or a task or program that the user has added, that is not used, and why."""

    noun: Literal["plugins", "manifests"]
    """What it is one of."""
    name: str
    """A plugin's distribution; the workload or stack that a manifest describes."""
    what: str
    """`package` with distribution and version, or `manifest` with its path."""
    seen: str
    remedy: str
    """What to do, as one sentence."""

    @property
    def said(self) -> str:
        """What is wrong, in one line."""
        return f"{self.what} is left out: {self.seen}"


def plugin_left_out(plugin: str, seen: str) -> LeftOut:
    """Return a plugin as left out; plugin: distribution and version, as far as they are known."""
    name, what = plugin.partition(" ")[0], f"package {plugin}"
    remedy = f"Correct it, or run `pip uninstall {name}`."
    return LeftOut(noun="plugins", name=name, what=what, seen=seen, remedy=remedy)


class PluginRefused(ValueError):
    """A plugin that is left out; the message is what is wrong with it."""


@dataclass(frozen=True, slots=True)
class InstalledPlugin:
    """A plugin and the folder of its package."""

    plugin: Plugin
    folder: Path


def installed_plugins() -> tuple[list[InstalledPlugin], list[LeftOut]]:
    """Return the plugins of this Python, by name, and those that can't be found or told apart."""
    found: dict[str, InstalledPlugin] = {}
    left_out: list[LeftOut] = []
    for distribution in distributions():
        try:
            if GROUP not in (distribution.read_text("entry_points.txt") or ""):
                continue
            if (name := distribution.name) not in found:  # of two of a name, the first is imported
                found[name] = _installed(distribution)
        except UnicodeDecodeError:
            seen = "its metadata is not UTF-8 text"
            left_out.append(plugin_left_out(_shown(distribution), seen))
        except (PluginRefused, OSError) as error:
            left_out.append(plugin_left_out(_shown(distribution), str(error)))
    by_name = [found[name] for name in sorted(found)]
    shared = Counter(one.plugin.package for one in by_name)
    for one in by_name:
        if shared[package := one.plugin.package] > 1:
            others = (o.plugin.named for o in by_name if o != one and o.plugin.package == package)
            seen = f"{', '.join(others)} names package {package}, too"
            left_out.append(plugin_left_out(one.plugin.named, seen))
    return [one for one in by_name if shared[one.plugin.package] == 1], left_out


def files_digest(folder: Path) -> str:
    """Return a digest of a package's files: names, content of code and manifests, other sizes.

    What Python, and libraries as Numba, compile is left out. Raises OSError.
    """
    digest = hashlib.sha256()
    for path in sorted(folder.rglob("*")):
        inside = path.relative_to(folder)
        if path.suffix == ".pyc" or CACHE in inside.parts or not path.is_file():
            continue
        line = f"{inside}\0{path.stat().st_size}\n"
        digest.update(line.encode(errors="surrogateescape"))
        if path.suffix in READ:
            with path.open("rb") as file:
                digest.update(hashlib.file_digest(file, "sha256").digest())
    return digest.hexdigest()[:DIGITS]


def _installed(distribution: Distribution) -> InstalledPlugin:
    """Return the plugin of a distribution; raises PluginRefused, and OSError for its files."""
    package = _package_named(distribution)
    folder = _folder_of(package)
    if not _has(distribution, package):
        raise PluginRefused(f"{package} is not a package of it")
    try:
        plugin = Plugin(
            distribution=distribution.name,
            version=distribution.version,
            package=package,
            digest=files_digest(folder),
        )
    except ValidationError as error:
        raise PluginRefused("its metadata has no proper name and version") from error
    return InstalledPlugin(plugin, folder)


def _package_named(distribution: Distribution) -> str:
    try:
        points: EntryPoints = distribution.entry_points.select(group=GROUP)
        named = sorted({point.value for point in points})
    except (TypeError, ValueError, AttributeError) as error:  # importlib's, for a damaged file
        raise PluginRefused("entry_points.txt cannot be read") from error
    if len(named) != 1:
        raise PluginRefused(f"group {GROUP} names {len(named)} packages: name one package")
    (package,) = named
    if not package.isidentifier():
        seen = f"the entry point {short(package)} is not the name of a package that is in no other"
        raise PluginRefused(seen)
    if package in OURS:
        raise PluginRefused(f"{package} is a package of benchfarm itself")
    return package


def _folder_of(package: str) -> Path:
    """Return a package's folder, without importing it; raises PluginRefused."""
    try:
        spec = find_spec(package)
    except ValueError:  # of a module that something has put together by hand
        spec = None
    folders = spec.submodule_search_locations if spec else None
    if spec is None or not folders:
        raise PluginRefused(f"there is no package {package}")
    if spec.origin is None:
        raise PluginRefused(f"{package} has no __init__.py")
    return Path(folders[0])


def _has(distribution: Distribution, package: str) -> bool:
    """Return whether a package is a distribution's own, as far as its metadata says."""
    try:
        files: Sequence[Path] | None = distribution.files  # type: ignore[assignment] # paths, too
    except (TypeError, ValueError, csv.Error) as error:
        raise PluginRefused("RECORD cannot be read") from error
    if files is None or any(path.parts[:1] == (package,) for path in files):
        return True
    try:
        told = json.loads(distribution.read_text("direct_url.json") or "{}")
        return bool(told["dir_info"]["editable"])  # then its package is in its own folder
    except (ValueError, KeyError, TypeError):
        return False


def _shown(distribution: Distribution) -> str:
    """Return a distribution's name and version, as far as its metadata can be read."""
    try:
        words = [distribution.metadata[key] for key in ("Name", "Version")]
    except (UnicodeDecodeError, OSError):
        words = []
    return " ".join(short(word)[1:-1] for word in words if word) or "without a name"
