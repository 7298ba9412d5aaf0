"""Python's collector of garbage, which looks through all objects while many are made."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def no_collections() -> Iterator[None]:
    """Collect no garbage: very many small objects are made, all of them in use."""
    was_on = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_on:
            gc.enable()


def leave_to_the_end() -> None:
    """Look through none of the objects that are there any more, not even as the process ends."""
    gc.freeze()
