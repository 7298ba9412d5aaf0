from __future__ import annotations

import signal
from types import FrameType

from hypothesis import settings

settings.register_profile("ci", deadline=None, derandomize=True)
settings.load_profile("ci")


def pytest_configure() -> None:
    """Let a terminated test session end what it started: as on Ctrl-C, fixtures are taken down."""

    def interrupt(number: int, frame: FrameType | None) -> None:
        raise KeyboardInterrupt

    signal.signal(signal.SIGTERM, interrupt)
