"""A quiet end on ^C for the processes that a command starts; only the command prints a message."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

INTERRUPTED: Final = 130
"""Exit status of a process that ^C has ended, as in shells."""


@contextmanager
def quietly_interrupted() -> Iterator[None]:
    """End this process without a message on ^C, which reaches all processes of a command."""
    try:
        yield
    except KeyboardInterrupt:
        sys.exit(INTERRUPTED)
