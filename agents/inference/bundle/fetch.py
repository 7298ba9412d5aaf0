"""Fetches a bundle's packages: `.deb` files by apt, wheels and sources by pip; installs nothing."""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

from agents.inference.bundle.recipe import (
    BundleUnbuildable,
    DebianPins,
    Recipe,
    SourcePin,
    WheelPin,
    raise_if_killed,
)
from controller.platform.inherited import inherited_to_fetch
from controller.platform.programs import python_module

TIMEOUT_S: Final = 900
NETWORK_S: Final = 30


def fetched(recipe: Recipe, cache: Path, refresh: bool) -> Path:
    """Return a folder with `debs/` and `wheels/`, from the cache unless `refresh` is set.

    If the recipe compiles something, the folder also has `source/`, `tools/` and `headers/`. Raises
    BundleUnbuildable.
    """
    parts = (recipe.debian, recipe.wheels, *((recipe.compiled,) if recipe.compiled else ()))
    pins = "".join(part.model_dump_json() for part in parts)
    folder = cache / hashlib.sha256(pins.encode()).hexdigest()[:16]
    if folder.is_dir() and not refresh:
        return folder
    cache.mkdir(parents=True, exist_ok=True)
    with TemporaryDirectory(prefix="fetching-", dir=cache) as scratch:
        fresh, apt = Path(scratch) / "fresh", Path(scratch) / "apt"
        debian = recipe.debian.packages
        _fetch_debs(recipe.debian, debian, fresh / "debs", apt)
        platforms = [word for tag in recipe.wheels.platforms for word in ("--platform", tag)]
        target = ("--only-binary=:all:", "--python-version", recipe.python, *platforms)
        _fetch_python(recipe.wheels.packages, fresh / "wheels", target)
        if recipe.compiled:
            _fetch_source(recipe.debian, recipe.compiled.source, fresh, apt)
        shutil.rmtree(folder, ignore_errors=True)
        fresh.replace(folder)
    return folder


def _fetch_source(debian: DebianPins, source: SourcePin, fresh: Path, apt: Path) -> None:
    """Fetch a source package and its compiler.

    pip first builds the package's metadata in a temporary environment.
    """
    pin = {source.package: WheelPin(version=source.version, sha256=source.sha256)}
    _fetch_python(pin, fresh / "source", ("--no-binary=:all:",))
    _fetch_python(source.tools, fresh / "tools", ("--only-binary=:all:",))
    _fetch_debs(debian, source.headers, fresh / "headers", apt)


def _fetch_debs(debian: DebianPins, packages: Mapping[str, str], folder: Path, state: Path) -> None:
    """Download with the host's package sources but separate package lists; the host's stay
    unchanged."""
    folder.mkdir(parents=True)
    for path in (state / "lists/partial", state / "cache/archives/partial"):
        path.mkdir(parents=True, exist_ok=True)
    apt = ("apt-get", "--quiet", "--quiet", *_apt_options(debian.arch, state))
    pins = [f"{name}={version}" for name, version in packages.items()]
    remedy = (
        f"Give apt package sources of Debian {debian.release} that it can reach: "
        "check the network, the proxy and /etc/apt/sources.list."
    )
    _call((*apt, "update"), state, remedy)
    _call((*apt, "download", *pins), folder, remedy)


def _apt_options(arch: str, state: Path) -> list[str]:
    options = {
        "Dir::State::Lists": state / "lists",
        "Dir::Cache": state / "cache",
        "APT::Architecture": arch,
        "APT::Architectures": arch,
        "APT::Sandbox::User": "root",  # apt would switch to a user that can't write here
        "Acquire::Languages": "none",
        "Acquire::Retries": 2,
        "Acquire::http::Timeout": NETWORK_S,
        "Acquire::https::Timeout": NETWORK_S,
        "Debug::NoLocking": "true",
    }
    return [word for key, value in options.items() for word in ("-o", f"{key}={value}")]


def _fetch_python(pins: Mapping[str, WheelPin], folder: Path, kind: Sequence[str]) -> None:
    """Download Python packages by checksum; `kind`: pip options for the platform, or for
    sources."""
    folder.mkdir(parents=True)
    requirements = folder.with_suffix(".txt")
    requirements.write_text(
        "".join(f"{name}=={pin.version} --hash=sha256:{pin.sha256}\n" for name, pin in pins.items())
    )
    pip = python_module("pip", "--disable-pip-version-check", "--no-input", "download")
    what = ("--no-deps", "--require-hashes", "-r", str(requirements), *kind)
    _call(
        (*pip, "--quiet", f"--timeout={NETWORK_S}", *what, "--dest", str(folder)),
        folder,
        f"Check that {pip[0]} has pip and reaches a package index: see the "
        "network, the proxy and `pip config list`.",
    )


def _call(command: Sequence[str], folder: Path, remedy: str) -> None:
    shown = "run " + " ".join(
        (Path(command[0]).name, *(word for word in command if word in _VERBS))
    )
    try:
        done = subprocess.run(
            command,
            cwd=folder,
            env=inherited_to_fetch(os.environ),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=TIMEOUT_S,
            check=False,
        )
    except OSError as error:
        why = f"{command[0]} does not start: {error.strerror}"
        raise BundleUnbuildable(shown, why, remedy) from error
    except subprocess.TimeoutExpired as error:
        raise BundleUnbuildable(shown, f"no end after {TIMEOUT_S} s", remedy) from error
    raise_if_killed(shown, done.returncode)
    if done.returncode != 0:
        raise BundleUnbuildable(shown, _last_words(done.stderr), remedy)


_VERBS: Final = ("pip", "update", "download")


def _last_words(text: str) -> str:
    errors = [line for line in text.splitlines() if line.startswith(("E:", "ERROR:"))]
    return " ".join((errors or text.splitlines() or ["it gave no reason"])[-3:])
