"""The controller's two clocks."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Clock:
    """The time of day, and the time that decides.

    `steady`, which nobody can set, times whatever expires: leases, silence, pauses between probes,
    fair shares. `wall` gives the dates that are stored and shown, and times bookings.
    """

    wall: Callable[[], float] = time.time
    """Seconds since the epoch; may be set at any time."""
    steady: Callable[[], float] = time.monotonic
    """Seconds since an unknown moment; not comparable between processes."""

    def steady_at(self, date: float) -> float:
        """Return a past date on the steady clock: now, if the wall clock has it in the future."""
        return self.steady() - max(0.0, self.wall() - date)
