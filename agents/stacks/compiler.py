"""The C++ compiler for stacks and baselines that compile at run time."""

from __future__ import annotations

import os
import shutil
from collections.abc import Mapping

from controller.contracts.errors import WorkerFault
from controller.contracts.result import Blame, Failure

MISSING = "there is no C++ compiler. Run `apt-get install g++`, or name one in CXX."


def compiler(environ: Mapping[str, str] = os.environ) -> str | None:
    """Return the path of the C++ compiler that torch's inductor calls, or None."""
    return shutil.which(environ.get("CXX") or "g++")


def require_compiler(wanted_by: str) -> str:
    """Return the compiler's path; raises WorkerFault, blame user, if there is none."""
    found = compiler()
    if found is None:
        message = f"{wanted_by}: {MISSING}"
        raise WorkerFault(Failure(blame=Blame.USER, kind="no_compiler", message=message))
    return found
