from __future__ import annotations

import os
import signal
from types import FrameType

from hypothesis import settings

# Before torch loads OpenMP: threads that spin while they wait take other processes' cores away.
os.environ.setdefault("OMP_WAIT_POLICY", "passive")

settings.register_profile("ci", deadline=None, derandomize=True)
settings.load_profile("ci")


def pytest_configure() -> None:
    """Let a terminated test session end what it started: as on Ctrl-C, fixtures are taken down."""

    def interrupt(number: int, frame: FrameType | None) -> None:
        raise KeyboardInterrupt

    signal.signal(signal.SIGTERM, interrupt)
