"""The C++ compiler for stacks and baselines that compile at run time."""

from __future__ import annotations

import getpass
import os
import re
import shutil
import tempfile
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Final

from controller.contracts.errors import WorkerFault
from controller.contracts.result import Blame, Failure
from controller.platform.private_files import require_private_folder

MISSING = "there is no C++ compiler. Run `apt-get install g++`, or name one in CXX."

WRAPPER: Final = Path(__file__).parent / "inductor" / "g++"
"""What inductor calls in place of GCC, which compiles some of its kernels wrongly; see there."""
WRAPPED: Final = "BENCHFARM_CXX"
"""Names the compiler that the wrapper calls."""
GCC: Final = ("g++", "gcc")
"""In the names of GCC's programs; a version or a target may stand beside."""


def compiler(environ: Mapping[str, str] = os.environ) -> str | None:
    """Return the path of the C++ compiler that torch's inductor calls, or None."""
    return shutil.which(environ.get(WRAPPED) or environ.get("CXX") or "g++")


def inductor_environ(cxx: str | None, cache: Path) -> dict[str, str]:
    """Return the environment in which inductor compiles: with GCC by the wrapper.

    cxx: the compiler's path; None if there is none. cache: a folder that no other user can write
    to, since what is found there is run.
    """
    environ = {"TORCHINDUCTOR_CACHE_DIR": str(cache)}
    if cxx is not None and _is_gcc(cxx):
        environ |= {"CXX": str(WRAPPER), WRAPPED: cxx}
    return environ


def _is_gcc(cxx: str) -> bool:
    names = (Path(cxx).name, Path(cxx).resolve().name)  # c++ is a link to g++, g++ may be to ccache
    return any("clang" not in name and any(gcc in name for gcc in GCC) for name in names)


def require_compiler(wanted_by: str) -> str:
    """Return the compiler's path.

    Raises WorkerFault, blame user, if there is none; UserError if another user could have written
    what it would read.
    """
    found = compiler()
    if found is None:
        message = f"{wanted_by}: {MISSING}"
        raise WorkerFault(Failure(blame=Blame.USER, kind="no_compiler", message=message))
    require_private_headers(wanted_by)
    return found


def require_private_headers(wanted_by: str) -> None:
    """Make the folder private in which inductor keeps headers, compiled in advance.

    Inductor takes no other place for these. Raises UserError if another user could have written
    there: what is in a header is compiled into a kernel, and run.
    """
    folder = headers_folder()
    with suppress(FileExistsError):
        folder.mkdir(mode=0o700)
    remedy = "Remove it, or set TMPDIR to a folder that only you can write to."
    require_private_folder(folder, f"{wanted_by}: keep precompiled headers in {folder}", remedy)


def headers_folder() -> Path:
    """Return torch's default_cache_dir(), which imports torch."""
    user = re.sub(r'[\\/:*?"<>|]', "_", getpass.getuser())
    return Path(tempfile.gettempdir()) / f"torchinductor_{user}"
