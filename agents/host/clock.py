"""This host's clock, which gives the times in an agent's messages."""

from __future__ import annotations

import os
import time
from collections.abc import Callable

AHEAD = "BENCHFARM_TEST_CLOCK_AHEAD_S"
"""For tests: seconds by which the agent's clock is ahead (or behind); the machine's clock stays."""


def host_clock() -> Callable[[], float]:
    """Return a function that returns seconds since the epoch."""
    if ahead := os.environ.get(AHEAD):
        ahead_s = float(ahead)
        return lambda: time.time() + ahead_s
    return time.time
