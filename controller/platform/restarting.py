"""Ends processes that Ray is to start again: it restarts an actor whose process has ended, never
one that has raised an error."""

from __future__ import annotations

import logging
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final, NoReturn

log = logging.getLogger(__name__)
RESTART_PAUSE_S: Final = 1.0
"""Pause before an actor that could not start is started again."""


def end_for_restart(message: str, error: BaseException | None, pause_s: float = 0.0) -> NoReturn:
    """Log what an actor can't survive, and end this process after a pause."""
    log.critical(message, exc_info=error)
    time.sleep(pause_s)
    os._exit(1)


@contextmanager
def retried(name: str, *, restarted: bool, pause_s: float) -> Iterator[None]:
    """End this process on an exception of this context, if it is a restart; who waits for a first
    start is told instead."""
    try:
        yield
    except Exception as error:
        if not restarted:
            raise
        end_for_restart(f"{name} cannot start now and is started again", error, pause_s)
