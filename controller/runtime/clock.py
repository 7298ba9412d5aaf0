"""The controller's two clocks."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Clock:
    """The time that people read, and the time that decides.

    Whatever runs out (leases, silence, pauses between probes, fair shares) is timed by `steady`:
    nobody can set it. Dates that are stored and shown, and bookings, are by `wall`.
    """

    wall: Callable[[], float] = time.time
    """Seconds since the epoch; may be set at any time."""
    steady: Callable[[], float] = time.monotonic
    """Seconds since some moment; means nothing to another process."""

    def steady_at(self, date: float) -> float:
        """Return a past date on the steady clock: now, if the wall clock has it in the future."""
        return self.steady() - max(0.0, self.wall() - date)
