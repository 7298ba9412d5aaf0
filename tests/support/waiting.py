"""Waiting for what nobody tells of: looking, again and again."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TypeVar

PATIENCE_S = 240.0
"""When a test gives up: no bound of the product's, and much more than any of its waits takes. A
machine that is shared may be ten times slower for minutes."""
LOOK_S = 0.1
Found = TypeVar("Found")


def eventually(look: Callable[[], Found | None], what: str, look_s: float = LOOK_S) -> Found:
    """Return what a look finds as soon as it finds something."""
    give_up = time.monotonic() + PATIENCE_S
    while not (found := look()):
        assert time.monotonic() < give_up, f"not in {PATIENCE_S:.0f} s: {what}"
        time.sleep(look_s)
    return found


def seconds_until(holds: Callable[[], object]) -> float:
    """Return after how many seconds something holds."""
    start = time.monotonic()
    eventually(holds, "it holds")
    return time.monotonic() - start
