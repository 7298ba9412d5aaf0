"""The wall clock, by which LoadGen measures: whether it was set during a run.

LoadGen's PerfClock is C++'s high_resolution_clock, which libstdc++ makes the same as system_clock,
so that LoadGen's own comparison of both finds nothing. Linux slews the monotonic clock with the
wall clock: they come apart only where the latter is stepped or the device is suspended.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import Final

LEAST_S: Final = 0.01
"""Less is no step, however long the run: whoever keeps a clock steps it only if it is wrong by a
tenth of a second or more, and slews it otherwise."""
_READINGS: Final = 5
"""Of these, the one counts that was least interrupted."""


@dataclass(frozen=True, slots=True)
class Clocks:
    """The wall clock and the monotonic one at a moment, or what passed on each, in seconds."""

    wall_s: float
    monotonic_s: float
    within_s: float
    """The time that reading both took, by which they may be apart."""

    @classmethod
    def now(cls) -> Clocks:
        """Read both."""
        return min((cls._read() for _ in range(_READINGS)), key=lambda read: read.within_s)

    @classmethod
    def _read(cls) -> Clocks:
        began = time.monotonic()
        wall_s = time.time()
        return cls(wall_s, began, time.monotonic() - began)

    def passed(self) -> Clocks:
        """Return what has passed on each since this moment."""
        now = Clocks.now()
        return Clocks(
            now.wall_s - self.wall_s,
            now.monotonic_s - self.monotonic_s,
            now.within_s + self.within_s,
        )

    @property
    def set_by_s(self) -> float:
        """By how much the wall clock was set while this passed."""
        return self.wall_s - self.monotonic_s

    @property
    def objection(self) -> str | None:
        """Why LoadGen's times of what passed are wrong, or None."""
        if abs(self.set_by_s) - self.within_s <= LEAST_S:
            return None
        # The monotonic clock stands while the device is suspended.
        slept = ", or the device was suspended" if self.set_by_s > 0 else ""
        by = f"{self.set_by_s:+.3g} s"
        return f"the wall clock was set by {by} during the run{slept}, and LoadGen measures by it"
