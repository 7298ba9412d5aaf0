"""The current rate of a run."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable
from typing import Final

WINDOW: Final = 5
"""Number of readings, one a second, to average over: a slow model answers no query in some seconds
and two in others."""


class Pace:
    """Samples a second over the last few readings."""

    def __init__(self, clock: Callable[[], float] = time.perf_counter) -> None:
        self._clock = clock
        self._readings = deque([(clock(), 0)], maxlen=WINDOW + 1)

    def after(self, done: int) -> float:
        """Return the samples a second, with `done` of them answered now."""
        self._readings.append((self._clock(), done))
        (began, before), (ended, after) = self._readings[0], self._readings[-1]
        return (after - before) / (ended - began)
