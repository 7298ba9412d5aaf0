"""This host's clock, by which its agent says when something was."""

from __future__ import annotations

import os
import time
from collections.abc import Callable

AHEAD = "BENCHFARM_TEST_CLOCK_AHEAD_S"
"""For tests: the agent's clock is ahead by so many seconds, or behind; the machine's is not set."""


def host_clock() -> Callable[[], float]:
    """Return what gives the time, in seconds since the epoch."""
    if ahead := os.environ.get(AHEAD):
        ahead_s = float(ahead)
        return lambda: time.time() + ahead_s
    return time.time
