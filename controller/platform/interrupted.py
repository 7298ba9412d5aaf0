"""^C: how processes end on it, quietly but for the command, and how none is lost."""

from __future__ import annotations

import signal
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    Hook = Callable[[sys.UnraisableHookArgs], object]

INTERRUPTED: Final = 130
"""Exit status of a process that ^C has ended, as in shells."""
AGAIN_S: Final = 0.05
"""After so long, a ^C that was swallowed comes again: what swallowed it has ended by then."""


@contextmanager
def quietly_interrupted() -> Iterator[None]:
    """End this process without a message on ^C, which reaches all processes of a command."""
    try:
        yield
    except KeyboardInterrupt:
        sys.exit(INTERRUPTED)


@contextmanager
def none_swallowed() -> Iterator[None]:
    """Have a ^C come again in this context if Python has swallowed it.

    It swallows whatever a finaliser or the callback of a weak reference raises.
    """
    former = sys.unraisablehook
    sys.unraisablehook = _again_or(former)
    try:
        yield
    finally:
        sys.unraisablehook = former


def _again_or(former: Hook) -> Hook:
    def hook(swallowed: sys.UnraisableHookArgs) -> None:
        if not issubclass(swallowed.exc_type, KeyboardInterrupt):
            former(swallowed)
            return
        main = threading.main_thread().ident or 0
        again = threading.Timer(AGAIN_S, signal.pthread_kill, (main, signal.SIGINT))
        again.daemon = True
        again.start()

    return hook
