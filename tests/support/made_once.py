"""A folder that tests of several processes read, made once in a run of the tests."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from tempfile import mkdtemp

import pytest

from controller.platform.locks import exclusive_in_thread

OWN = ("process-", "popen-")
"""What the names begin with of folders that processes have in that of the run."""


def made_once(factory: pytest.TempPathFactory, name: str, make: Callable[[Path], None]) -> Path:
    """Return a folder that the first process that wants it has had filled; nobody may change it."""
    own = factory.getbasetemp()
    run = own.parent if own.name.startswith(OWN) else own
    made = run / f"once-{name}"
    with exclusive_in_thread(run / f"once-{name}.lock"):
        if not made.exists():
            begun = Path(mkdtemp(prefix="once-", dir=run))
            make(begun)
            begun.rename(made)
    return made
