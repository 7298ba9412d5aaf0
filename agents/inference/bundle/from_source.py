"""Reproducible cross-compilation of a source package's extension module.

The compiler is a wheel with the libraries of its targets, so the host needs none. Paths are
relative and no clock is read: the same inputs give the same file in any folder.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import tarfile
import zipfile
from pathlib import Path
from platform import machine
from typing import Final

from agents.inference.bundle.debs import unpack_deb
from agents.inference.bundle.recipe import BundleUnbuildable, Compilation, raise_if_killed

TIMEOUT_S: Final = 1800
HOST: Final = "x86_64"
"""The machine that the pinned compiler runs on."""
_INCLUDED: Final = ("tools/pybind11/include", "headers/usr/include", "headers/usr/include/python{}")


def require_host(bundle: str) -> None:
    """Raise BundleUnbuildable on a host where the compiler can't run; called before any
    download."""
    if machine() != HOST:
        raise BundleUnbuildable(
            f"build bundle {bundle}",
            f"its compiler runs on {HOST} only, and this host is {machine()}",
            f"Connect the phone to an {HOST} host of the farm.",
        )


def compiled(
    work: Compilation, python: str, packages: Path, scratch: Path, page_bytes: int
) -> Path:
    """Return a folder to lay beside the wheels: the module and the package's metadata.

    The result is cached with the packages. Raises BundleUnbuildable.
    """
    done = packages / "compiled"
    if done.is_dir():
        return done
    source = _unpacked(work, packages, scratch)
    fresh = scratch / "compiled"
    fresh.mkdir()
    module = fresh / f"{work.source.module}.so"
    _compile(work, python, scratch, source, module, page_bytes)
    name = f"{work.source.package.replace('-', '_')}-{work.source.version}.dist-info"
    (fresh / name).mkdir()
    shutil.copyfile(source / "PKG-INFO", fresh / name / "METADATA")
    fresh.replace(done)
    return done


def _unpacked(work: Compilation, packages: Path, scratch: Path) -> Path:
    """Unpack `source`, `tools` and `headers`; return the source package's folder."""
    for wheel in sorted((packages / "tools").glob("*.whl")):
        with zipfile.ZipFile(wheel) as archive:
            archive.extractall(scratch / "tools")
    for package in sorted((packages / "headers").glob("*.deb")):
        unpack_deb(package, scratch / "headers")
    (archive_path,) = (packages / "source").iterdir()
    with tarfile.open(archive_path) as tar:
        tar.extractall(scratch / "source", filter="data")
    (folder,) = (scratch / "source").iterdir()
    return folder


def _compile(
    work: Compilation, python: str, scratch: Path, source: Path, module: Path, page_bytes: int
) -> None:
    pin = work.source
    compiler = scratch / "tools/ziglang/zig"
    compiler.chmod(0o755)  # unpacking a wheel loses its modes
    up = os.path.relpath(scratch, source)
    files = sorted(p.relative_to(source).as_posix() for g in pin.sources for p in source.glob(g))
    included = ("-I.", *(f"-I{up}/{folder.format(python)}" for folder in _INCLUDED))
    linked = ("-shared", "-fPIC", "-fvisibility=hidden", "-g0", "-s", "-w")
    pages = f"-Wl,-z,max-page-size={page_bytes}"
    macros = [f"-D{macro}" for macro in pin.macros]
    command = (
        *(str(compiler), "c++", "-target", work.target, *pin.flags, *linked, pages, *macros),
        *(*included, *files, "-o", os.path.relpath(module, source)),
    )
    cache = str(scratch / "cache")
    environment = {"ZIG_GLOBAL_CACHE_DIR": cache, "ZIG_LOCAL_CACHE_DIR": cache, "PATH": os.defpath}
    what = f"compile {pin.package} {pin.version} for {work.target}"
    try:
        done = subprocess.run(
            command,
            cwd=source,
            env=environment,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=TIMEOUT_S,
            check=False,
        )
    except subprocess.TimeoutExpired as error:
        raise BundleUnbuildable(what, f"no end after {TIMEOUT_S} s", "Build it again.") from error
    raise_if_killed(what, done.returncode)
    if done.returncode != 0:
        raise BundleUnbuildable(what, done.stderr.strip()[-300:], "Build it again with --refresh.")
