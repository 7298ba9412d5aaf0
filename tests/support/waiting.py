"""Waiting for what nobody tells of: looking, again and again."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from typing import TypeVar

PATIENCE_S = 240.0
"""When a test gives up: no bound of the product's, and much more than any of its waits takes. A
machine that is shared may be ten times slower for minutes."""
COMMAND_S = 600.0
"""The same for commands of benchfarm's, which may wait for a whole sweep."""
LOOK_S = 0.1
SOON_S = 0.02
Found = TypeVar("Found")


def eventually(look: Callable[[], Found | None], what: str, look_s: float = LOOK_S) -> Found:
    """Return what a look finds as soon as it finds something."""
    give_up = time.monotonic() + PATIENCE_S
    while not (found := look()):
        assert time.monotonic() < give_up, f"not in {PATIENCE_S:.0f} s: {what}"
        time.sleep(look_s)
    return found


def seconds_until(holds: Callable[[], object], what: str) -> float:
    """Return after how many seconds something holds."""
    start = time.monotonic()
    eventually(holds, what)
    return time.monotonic() - start


async def until(holds: Callable[[], object | Awaitable[object]], what: str) -> None:
    """Return once something holds, which may have to be asked for, while tasks go on."""
    give_up = time.monotonic() + PATIENCE_S
    while not await _answer(holds()):
        assert time.monotonic() < give_up, f"not in {PATIENCE_S:.0f} s: {what}"
        await asyncio.sleep(SOON_S)


async def _answer(said: object) -> object:
    return await said if isinstance(said, Awaitable) else said
