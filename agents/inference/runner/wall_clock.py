"""The wall clock, by which LoadGen measures: whether it was set or slewed during a run.

LoadGen's PerfClock is C++'s high_resolution_clock, which libstdc++ makes the same as system_clock,
so that LoadGen's own comparison of both finds nothing. Linux slews the monotonic clock with the
wall clock: they come apart only where the latter is stepped or the device is suspended. Both leave
the raw clock (CLOCK_MONOTONIC_RAW), which nobody adjusts, while they are slewed.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import Final

LEAST_S: Final = 0.01
"""Less is no step, however long the run: whoever keeps a clock steps it only if it is wrong by a
tenth of a second or more, and slews it otherwise."""
SLEWED_SHARE: Final = 0.001
"""Slewed by less, a time is as good: twice the 500 ppm by which ntpd corrects a clock at most.
chrony slews by up to 8.3 %, the kernel by 10 %."""
_READINGS: Final = 5
"""Of these, the one counts that was least interrupted."""


@dataclass(frozen=True, slots=True)
class Clocks:
    """The wall, monotonic and raw clocks at a moment, or what passed on each, in seconds."""

    wall_s: float
    monotonic_s: float
    raw_s: float
    within_s: float
    """The time that reading all took, by which they may be apart."""

    @classmethod
    def now(cls) -> Clocks:
        """Read all."""
        return min((cls._read() for _ in range(_READINGS)), key=lambda read: read.within_s)

    @classmethod
    def _read(cls) -> Clocks:
        began = time.monotonic()
        wall_s, raw_s = time.time(), time.clock_gettime(time.CLOCK_MONOTONIC_RAW)
        return cls(wall_s, began, raw_s, time.monotonic() - began)

    def passed(self) -> Clocks:
        """Return what has passed on each since this moment."""
        now = Clocks.now()
        return Clocks(
            now.wall_s - self.wall_s,
            now.monotonic_s - self.monotonic_s,
            now.raw_s - self.raw_s,
            now.within_s + self.within_s,
        )

    @property
    def set_by_s(self) -> float:
        """By how much the wall clock was set while this passed."""
        return self.wall_s - self.monotonic_s

    @property
    def slewed_by_s(self) -> float:
        """By how much the wall clock and the monotonic one were slewed while this passed."""
        return self.monotonic_s - self.raw_s

    @property
    def is_set(self) -> bool:
        """Whether the wall clock was set while this passed."""
        return abs(self.set_by_s) - self.within_s > LEAST_S

    @property
    def objection(self) -> str | None:
        """Why LoadGen's times of what passed are wrong, or None."""
        if self.is_set:
            # The monotonic clock stands while the device is suspended.
            slept = ", or the device was suspended" if self.set_by_s > 0 else ""
            return _measured_by_it(f"set by {self.set_by_s:+.3g} s during the run{slept}")
        if abs(self.slewed_by_s) - self.within_s > LEAST_S + SLEWED_SHARE * self.raw_s:
            return _measured_by_it(f"slewed by {self.slewed_by_s:+.3g} s during the run")
        return None


def _measured_by_it(what: str) -> str:
    return f"the wall clock was {what}, and LoadGen measures by it"
