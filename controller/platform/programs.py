"""How programs of ours are started: never with the current folder on Python's path.

`python -m` alone puts the current folder first, so that a `numpy.py` lying there would run as us.
All of ours start through here; `tests/unit/test_starting_programs.py` forbids any other way.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from contextlib import chdir, contextmanager
from pathlib import Path

PYTHON = Path(sys.executable)
"""The interpreter of our environment."""
SAFE_PATH = {"PYTHONSAFEPATH": "1"}
"""The same for all the Pythons that are started by what gets it in its environment."""


def python_module(
    module: str, *arguments: str, python: Path | None = None, options: Sequence[str] = ()
) -> tuple[str, ...]:
    """Return the command that runs a module that a Python has installed.

    python: 3.11 or newer; ours if left out. options: of Python itself.
    """
    return (str(python or sys.executable), "-P", *options, "-m", module, *arguments)


def python_file(file: Path, *arguments: str, python: Path) -> tuple[str, ...]:
    """Return the command that runs a file, which can't import what lies beside it."""
    return (str(python), "-P", str(file), *arguments)


def python_code(code: str, *arguments: str) -> tuple[str, ...]:
    """Return the command that runs a piece of code in our interpreter."""
    return (str(PYTHON), "-P", "-c", code, *arguments)


def this_program() -> tuple[str, ...]:
    """Return the command that begins this process anew."""
    return (str(PYTHON), "-P", *sys.orig_argv[1:])


def installed_beside(program: str) -> Path:
    """Return where a program of our environment is: beside our interpreter."""
    return PYTHON.with_name(program)


@contextmanager
def away_from_current_folder() -> Iterator[None]:
    """Be in `/` for a while: `ray.init` puts the current folder on the path of Ray's workers."""
    with chdir("/"):
        yield
