"""What ^C makes of the processes that a verb starts: they end, and only the verb says so."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

INTERRUPTED: Final = 130
"""Exit status of a process that ^C has ended, as shells have it."""


@contextmanager
def quietly_interrupted() -> Iterator[None]:
    """Have ^C, which a terminal sends to all processes of a verb, end this one without a word."""
    try:
        yield
    except KeyboardInterrupt:
        sys.exit(INTERRUPTED)
