"""The C++ compiler of stacks that compile while they run."""

from __future__ import annotations

import os
import shutil
from collections.abc import Mapping

MISSING = "there is no C++ compiler; apt-get install g++ (or let CXX name one)"


def compiler(environ: Mapping[str, str] = os.environ) -> str | None:
    """Return the path of the C++ compiler that torch's inductor calls, or None."""
    return shutil.which(environ.get("CXX") or "g++")
