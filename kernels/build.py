"""Compiles csrc into one plain shared library; run `python -m kernels.build` after a change there.

Needs only a C++ compiler, so the package's own build can use it, too.
"""

from __future__ import annotations

import hashlib
import os
import platform
import shlex
import shutil
import subprocess
import sys
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from tempfile import TemporaryDirectory

SOURCES = Path(__file__).parent / "csrc"
OPS = "ops"
"""Folder of SOURCES; all its headers are compiled and export functions."""
LIBRARY = Path(__file__).parent / "libbenchfarm_kernels.so"

_AVX2 = ("-mavx2", "-mfma")
_AVX512 = (*_AVX2, "-mavx512f", "-mavx512bw", "-mavx512dq", "-mavx512vl")
VARIANTS = {
    "scalar": (),
    "avx2": _AVX2,
    "avx512": _AVX512,
    "avx512_bf16": (*_AVX512, "-mavx512bf16"),
}
"""Compiler flags for each instruction set, the plainest first."""

RELEASE = ("-O3",)
SANITIZED = ("-Og", "-g1", "-fsanitize=address,undefined", "-fno-sanitize-recover=all")

_FLAGS = (
    *("-std=c++20", "-fPIC", "-fopenmp", "-fvisibility=hidden", "-fno-exceptions"),
    # Rounding follows the source; only errno and floating-point traps are given up.
    *("-ffp-contract=off", "-fno-math-errno", "-fno-trapping-math"),
    # GCC 12 warns about undefined registers in its own intrinsics.
    *("-Wall", "-Wextra", "-Wno-uninitialized", "-Wno-maybe-uninitialized"),
)


class NotBuilt(Exception):
    """No library can be built here, for the given reason; operators run in plain torch."""


def build(library: Path = LIBRARY, optimisation: Sequence[str] = RELEASE) -> Path:
    """Compile the library and return its path; raises NotBuilt if that is impossible.

    The compiler is $CXX, which may have arguments, quoted as in a shell, else c++. Takes about 10 s
    on one core.
    """
    compiler = _compiler()
    with TemporaryDirectory() as folder:
        objects = compile_objects(compiler, Path(folder), optimisation)
        # Never write to a library in use, nor to that of another build.
        linked = library.with_suffix(f".{os.getpid()}.new")
        _run(
            [*compiler, "-shared", *optimisation, "-fopenmp", *map(str, objects), "-o", str(linked)]
        )
    linked.replace(library)
    return library


def bring_up_to_date() -> None:
    """Build the library unless it was built from the present sources; raises NotBuilt."""
    if not (LIBRARY.exists() and digest().encode() in LIBRARY.read_bytes()):
        build()


def compile_objects(
    compiler: Sequence[str], folder: Path, optimisation: Sequence[str]
) -> list[Path]:
    """Compile cpu.cpp once, and the exports of OPS once for each variant.

    Returns the objects.
    """
    variant = folder / "variant.cpp"
    headers = sorted(path.name for path in (SOURCES / OPS).glob("*.h"))
    variant.write_text("".join(f'#include "{OPS}/{name}"\n' for name in headers))
    commands = {
        folder / f"{name}.o": [*flags, f"-I{SOURCES}", f"-DVARIANT={name}", str(variant)]
        for name, flags in VARIANTS.items()
    }
    commands[folder / "cpu.o"] = [f'-DSOURCES="{digest()}"', str(SOURCES / "cpu.cpp")]
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        running = [
            pool.submit(_run, [*compiler, *_FLAGS, *optimisation, *rest, "-c", "-o", str(target)])
            for target, rest in commands.items()
        ]
    for done in running:
        done.result()
    return list(commands)


def digest() -> str:
    """Return a hash of the sources and compiler options: 16 hex digits."""
    found = hashlib.sha256(repr((VARIANTS, RELEASE, _FLAGS)).encode())
    for path in sorted([*SOURCES.rglob("*.cpp"), *SOURCES.rglob("*.h")]):
        name = path.relative_to(SOURCES).as_posix()
        found.update(name.encode() + b"\0" + path.read_bytes())
    return found.hexdigest()[:16]


def _compiler() -> list[str]:
    if platform.machine() not in ("x86_64", "AMD64"):
        raise NotBuilt(f"no kernels exist for {platform.machine()}")
    wanted = os.environ.get("CXX", "c++")
    try:
        words = [wanted] if shutil.which(wanted) else shlex.split(wanted)
    except ValueError as error:  # a quote without its end
        raise NotBuilt(f"CXX is {wanted!r}, which is no command: {error}") from error
    program, *arguments = words or [wanted]
    found = shutil.which(program)
    if found is None:
        raise NotBuilt(f"the C++ compiler {wanted} is not installed")
    return [found, *arguments]


def _run(command: list[str]) -> None:
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise NotBuilt(f"{' '.join(command)} failed: {done.stderr.strip()}")


def main() -> int:
    """Build the library if it is out of date; return exit status 1 and print why if that is
    impossible."""
    try:
        bring_up_to_date()
    except NotBuilt as error:
        sys.stderr.write(f"cannot compile the kernels: {error}\n")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
