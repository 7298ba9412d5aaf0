"""Telling what becomes of files while they are fetched."""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from typing import Final

from controller.contracts.models import FetchEvent

Tell = Callable[[FetchEvent], None]
TELL_EVERY_S: Final = 0.2


def teller(tell: Tell, event: FetchEvent) -> Callable[[int, int | None], None]:
    """Return what tells the progress of a file, in bytes: its beginning, then every moment.

    event: says what is done, and with which file.
    """
    told = -math.inf

    def on_bytes(done: int, total: int | None) -> None:
        nonlocal told
        if time.monotonic() - told >= TELL_EVERY_S:
            told = time.monotonic()
            tell(event.model_copy(update={"done": done, "total": total}))

    return on_bytes
