"""Commands for our programs, never with the current folder on Python's path.

`python -m` alone puts the current folder first: a `numpy.py` there would run with our rights.
All our programs start through here; `tests/unit/test_starting_programs.py` forbids any other way.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from contextlib import chdir, contextmanager
from pathlib import Path

PYTHON = Path(sys.executable)
"""The interpreter of our environment."""
PYTHON_MODES = {"PYTHONSAFEPATH": "1", "PYTHONUTF8": "1"}
"""Environment of all Pythons that a program starts: the current folder is not on their path, and
files and pipes are UTF-8 whatever the locale."""


def python_module(
    module: str, *arguments: str, python: Path | None = None, options: Sequence[str] = ()
) -> tuple[str, ...]:
    """Return the command that runs an installed module.

    python: interpreter, 3.11 or newer; ours by default. options: options of Python itself.
    """
    return (str(python or sys.executable), "-P", *options, "-m", module, *arguments)


def python_file(file: Path, *arguments: str, python: Path) -> tuple[str, ...]:
    """Return the command that runs a file, without its folder on Python's path."""
    return (str(python), "-P", str(file), *arguments)


def python_code(code: str, *arguments: str) -> tuple[str, ...]:
    """Return the command that runs a piece of code in our interpreter."""
    return (str(PYTHON), "-P", "-c", code, *arguments)


def this_program() -> tuple[str, ...]:
    """Return the command that started this process."""
    return (str(PYTHON), "-P", *sys.orig_argv[1:])


def installed_beside(program: str) -> Path:
    """Return the path of a program of our environment: beside our interpreter."""
    return PYTHON.with_name(program)


@contextmanager
def away_from_current_folder() -> Iterator[None]:
    """Change to `/` in this context: `ray.init` adds the current folder to its workers' path."""
    with chdir("/"):
        yield
