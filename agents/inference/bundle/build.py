"""Builds a bundle: a folder that runs LiteRT on a device that has only a kernel and `sh`.

CPython, its standard library, glibc and the wheels lie in one folder, and a small script starts
them through the bundle's own dynamic loader. The folder's name ends in the hash of its content. A
tar with the same content lies beside it; this is pushed to devices.
"""

from __future__ import annotations

import fnmatch
import hashlib
import json
import platform
import shutil
import subprocess
import sys
import zipfile
from collections.abc import Iterable
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

import agents.inference.runner
from agents.inference.bundle.debs import unpack_deb
from agents.inference.bundle.elf import objections
from agents.inference.bundle.fetch import fetched
from agents.inference.bundle.files import (
    EXECUTABLE,
    PLAIN,
    content_sha256,
    files_in,
    pack,
    sha256_of,
    write,
)
from agents.inference.bundle.from_source import compiled, require_host
from agents.inference.bundle.recipe import (
    FOLDER,
    BundleUnbuildable,
    Recipe,
    raise_if_killed,
)
from agents.inference.bundle.requirements import Requirements, derived
from controller.contracts.base import Contract
from controller.contracts.documents import read_json
from controller.contracts.unreadable import UNREADABLE
from controller.platform.atomic import replacing
from controller.platform.locks import exclusive_in_thread
from controller.platform.programs import PYTHON, python_module

RUN: Final = "run"
"""The script in the root of a bundle: `run SPEC.json`."""
CONTENTS: Final = "BUNDLE.json"
"""The file in the root of a bundle that lists its contents."""
IMPORTED: Final = (
    "agents/host/cpu_lists.py",
    "agents/host/cpu_watch.py",
    "agents/host/strain.py",
    "controller/loadgen/audit_pattern.py",
    "controller/platform/control_groups.py",
    "controller/platform/cpu_quota.py",
    "controller/loadgen/logs.py",
    "models/mobile/decoding.py",
    "models/mobile/pixels.py",
)
"""What the runner imports of other rooms."""


class Bundle(Contract):
    """A built bundle in `folder` and in `archive`."""

    name: str
    """`<runtime>-<arch>-<the first 16 digits of content_sha256>`."""
    content_sha256: str
    """Hash of every file's path, mode and content."""
    archive_sha256: str
    inputs_sha256: str
    """Hash of the recipe, the runner and this builder; a change causes a rebuild."""
    folder: Path
    archive: Path
    requirements: Requirements


def build_bundle(out_dir: Path, recipe: Recipe, refresh: bool = False) -> Bundle:
    """Return a bundle, built now or found in `out_dir`, intact and built from the same inputs.

    `refresh` fetches the packages again, which includes Debian's security updates; without it
    nothing is fetched twice. Raises BundleUnbuildable.
    """
    record = out_dir / f"{recipe.name}.json"
    inputs = _inputs_sha256(recipe)
    if not refresh and (known := _found(record, inputs)):
        return known
    if recipe.compiled:
        require_host(recipe.name)
    try:
        out_dir.mkdir(parents=True, exist_ok=True)
        with exclusive_in_thread(out_dir / f"{recipe.name}.lock"):
            if not refresh and (known := _found(record, inputs)):
                return known  # another process has built it meanwhile
            packages = fetched(recipe, out_dir / "packages", refresh)
            with TemporaryDirectory(prefix="building-", dir=out_dir) as scratch:
                assemble(recipe, packages, Path(scratch) / "bundle", Path(scratch))
                return _publish(recipe, Path(scratch) / "bundle", record, inputs)
    except OSError as error:
        raise BundleUnbuildable(
            f"build bundle {recipe.name} in {out_dir}",
            str(error),
            "Free space there, or let this user write to it.",
        ) from error


# --- assembly -----------------------------------------------------------------------------------


def assemble(recipe: Recipe, packages: Path, bundle: Path, scratch: Path) -> None:
    """Lay out a bundle from fetched packages: lib, python, packages, app, `run`."""
    debian = scratch / "debian"
    for package in sorted((packages / "debs").glob("*.deb")):
        unpack_deb(package, debian)
    _take_libraries(recipe, debian, bundle / "lib")
    _take_python(recipe, debian, bundle / "python")
    wheels = sorted((packages / "wheels").glob("*.whl"))
    for wheel in wheels:
        _unpack_wheel(wheel, bundle / "packages", recipe.leave_out.wheels)
    sources = _add_compiled(recipe, packages, bundle / "packages", scratch / "compiling")
    for name, content in runner_sources().items():
        write(bundle / "app" / name, content)
    script = (FOLDER / "run.sh").read_text()
    script = script.replace("@LOADER@", recipe.loader).replace("@PYTHON@", recipe.python)
    write(bundle / RUN, script.encode(), EXECUTABLE)
    _compile(recipe, bundle)
    made_of = {
        "debian": sorted(path.stem for path in (packages / "debs").glob("*.deb")),
        "wheels": [wheel.stem for wheel in wheels],
        "compiled": sources,
    }
    write(bundle / CONTENTS, (json.dumps(made_of, indent=1) + "\n").encode())
    check_loadable(recipe, bundle)


def runner_sources() -> dict[str, bytes]:
    """Return the files of the runner and what it imports, by their paths as modules."""
    root = Path(next(iter(agents.inference.runner.__path__))).parents[2]
    runner = sorted((root / "agents/inference/runner").glob("*.py"))
    files = (*runner, *(root / name for name in IMPORTED))
    return {str(path.relative_to(root)): path.read_bytes() for path in files}


def _add_compiled(recipe: Recipe, packages: Path, folder: Path, scratch: Path) -> list[str]:
    """Add compiled packages that have no wheel; return the source packages."""
    if recipe.compiled is None:
        return []
    scratch.mkdir()
    made = compiled(recipe.compiled, recipe.python, packages, scratch, recipe.page_bytes)
    for path in files_in(made):
        write(folder / path.relative_to(made), path.read_bytes())
    source = recipe.compiled.source
    return [f"{source.package}-{source.version}"]


def check_loadable(recipe: Recipe, bundle: Path) -> None:
    """Raise BundleUnbuildable for a file that a kernel of this architecture may refuse to load."""
    for path in files_in(bundle):
        for objection in objections(path, recipe.machine, recipe.page_bytes):
            name = path.relative_to(bundle).as_posix()
            raise BundleUnbuildable(
                f"use {name} in bundle {recipe.name}", objection, "Correct the recipe."
            )


def _take_libraries(recipe: Recipe, debian: Path, folder: Path) -> None:
    """Copy each library as one regular file under its soname."""
    for soname in recipe.libraries:
        places = [path for path in sorted(debian.glob("**/" + soname)) if path.is_file()]
        if not places:
            raise BundleUnbuildable(
                f"build bundle {recipe.name}",
                f"none of its packages has {soname}",
                "Correct the recipe.",
            )
        mode = EXECUTABLE if soname == recipe.loader else PLAIN
        write(folder / soname, places[0].read_bytes(), mode)


def _take_python(recipe: Recipe, debian: Path, folder: Path) -> None:
    version = f"python{recipe.python}"
    write(folder / "bin" / version, (debian / "usr/bin" / version).read_bytes(), EXECUTABLE)
    stdlib = debian / "usr/lib" / version
    for path in sorted(stdlib.rglob("*")):
        name = path.relative_to(stdlib).as_posix()
        if path.is_file() and not _matches(name, recipe.leave_out.stdlib):
            write(folder / "lib" / version / name, path.read_bytes())


def _unpack_wheel(wheel: Path, folder: Path, leave_out: Iterable[str]) -> None:
    with zipfile.ZipFile(wheel) as archive:
        for name in archive.namelist():
            if not name.endswith("/") and not _matches(name, leave_out):
                write(folder / name, archive.read(name))


def _compile(recipe: Recipe, bundle: Path) -> None:
    """Compile bytecode, which cuts the CPU time of a start to two thirds.

    Bytecode is the same for every architecture. It contains no times, paths or random hashes, so
    that equal content gives an equal name.
    """
    environment = {"PYTHONHASHSEED": "0"}
    loader: tuple[str, ...] = ()
    python = PYTHON
    if f"{sys.version_info.major}.{sys.version_info.minor}" != recipe.python:
        # Another version's bytecode is useless: use the bundle's interpreter if it runs here.
        if platform.machine() != recipe.arch:
            raise BundleUnbuildable(
                f"compile bundle {recipe.name}",
                f"its bytecode is for Python {recipe.python}, and this is Python {PYTHON}",
                f"Build it with Python {recipe.python}, or on a host of its architecture.",
            )
        environment |= {"PYTHONHOME": str(bundle / "python"), "PYTHONDONTWRITEBYTECODE": "1"}
        libraries = str(bundle / "lib")
        own = str(bundle / "lib" / recipe.loader)
        loader = (own, "--inhibit-cache", "--library-path", libraries)
        python = bundle / "python/bin" / f"python{recipe.python}"
    how = ("-q", "-s", str(bundle), "--invalidation-mode", "unchecked-hash", str(bundle))
    done = subprocess.run(
        (*loader, *python_module("compileall", *how, python=python, options=("-S", "-s"))),
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    raise_if_killed(f"compile bundle {recipe.name}", done.returncode)
    if done.returncode != 0:
        said = (done.stdout or done.stderr).strip()[-300:]
        raise BundleUnbuildable(f"compile bundle {recipe.name}", said, "Correct the recipe.")


def _matches(name: str, patterns: Iterable[str]) -> bool:
    return any(fnmatch.fnmatchcase(name, pattern) for pattern in patterns)


# --- publication --------------------------------------------------------------------------------


def _publish(recipe: Recipe, fresh: Path, record: Path, inputs: str) -> Bundle:
    """Name a bundle by its content and move it into place; readers see all of it or nothing."""
    content = content_sha256(fresh)
    name = f"{recipe.name}-{content[:16]}"
    folder, archive = record.parent / name, record.parent / f"{name}.tar"
    with replacing(archive) as new:
        pack(fresh, new)
    if not folder.is_dir() or content_sha256(folder) != content:
        shutil.rmtree(folder, ignore_errors=True)
        fresh.replace(folder)
    bundle = Bundle(
        name=name,
        content_sha256=content,
        archive_sha256=sha256_of(archive),
        inputs_sha256=inputs,
        folder=folder,
        archive=archive,
        requirements=derived(folder, archive, recipe.page_bytes),
    )
    with replacing(record) as new:
        new.write_text(bundle.model_dump_json(indent=1) + "\n")
    return bundle


def found_bundle(out_dir: Path, recipe: Recipe) -> Bundle | None:
    """Return a recipe's bundle if it was built before from the same inputs and is intact."""
    return _found(out_dir / f"{recipe.name}.json", _inputs_sha256(recipe))


def _found(record: Path, inputs: str) -> Bundle | None:
    """Return the recorded bundle if it was built from these inputs and is unchanged."""
    try:
        bundle = read_json(Bundle, record)
        at = record.parent / bundle.name  # never hash a folder elsewhere
        whole = (
            bundle.inputs_sha256 == inputs
            and (bundle.folder, bundle.archive) == (at, at.with_name(f"{at.name}.tar"))
            and content_sha256(bundle.folder) == bundle.content_sha256
            and sha256_of(bundle.archive) == bundle.archive_sha256
        )
    except UNREADABLE:
        return None  # missing or incomplete: build it again
    return bundle if whole else None


def _inputs_sha256(recipe: Recipe) -> str:
    digest = hashlib.sha256(recipe.model_dump_json().encode())
    sources = {path.name: path.read_bytes() for path in FOLDER.glob("*.py")}
    sources["run.sh"] = (FOLDER / "run.sh").read_bytes()
    for name, content in (*sorted(sources.items()), *sorted(runner_sources().items())):
        digest.update(f"{name}\0{hashlib.sha256(content).hexdigest()}\n".encode())
    return digest.hexdigest()
