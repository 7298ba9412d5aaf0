"""The readings of a user's power meter: lines `SECONDS WATTS`, checked as they come. Pure.

SECONDS is Unix time, or `-` for the arrival of the line. Anything that makes readings doubtful is
stored as the reason why energy is unknown.
"""

from __future__ import annotations

import re
from array import array
from dataclasses import dataclass, field
from typing import Final

from agents.energy.account import Used
from agents.energy.trace import EnergyUnknownError, Samples, Span, of_power, require_changes

SOURCE: Final = "meter"
AT_RECEPTION: Final = "-"
MAX_LINE_BYTES: Final = 256
MOST_LINES_A_SECOND: Final = 100
MOST_LINES: Final = 2**22
"""Eleven hours of the fastest meter."""
MOST_WATTS: Final = 1e6
MOST_AGE_S: Final = 1.0
"""Largest difference between a line's time and the host's clock at its arrival."""
_NUMBER = r"[0-9]{1,15}(?:\.[0-9]{0,15})?(?:[eE][+-]?[0-9]{1,3})?"
_LINE: Final = re.compile(rf"(-|{_NUMBER})[ \t]+({_NUMBER})\s*")
_SHOWN = 40
"""Characters shown of an invalid line."""


@dataclass(frozen=True, slots=True)
class Moment:
    """A moment by two clocks of this host."""

    unix_s: float
    uptime_s: float
    """CLOCK_BOOTTIME, which can't be set."""


@dataclass(slots=True)
class MeterLog:
    """The readings of one run."""

    began_s: float
    """Uptime at the start of the meter."""
    at_s: array[float] = field(default_factory=lambda: array("d"))
    """Ascending uptimes."""
    watts: array[float] = field(default_factory=lambda: array("d"))
    most_age_s: float = 0.0
    """Largest difference between a line's own time and its arrival."""
    trouble: str = ""
    """The first reason to distrust the readings; later readings are dropped."""
    _last_told_s: float = 0.0

    def take(self, line: bytes, now: Moment) -> None:
        """Check and store a line that has just arrived."""
        if not self.trouble:
            try:
                self._keep(*self._read(line, now), now)
            except EnergyUnknownError as unknown:
                self.trouble = str(unknown)

    def _read(self, line: bytes, now: Moment) -> tuple[float, float]:
        """Return the moment (uptime) and the power of a line."""
        text = line.decode("ascii", "replace").rstrip("\r\n")
        matched = _LINE.fullmatch(text)
        if matched is None or len(line) > MAX_LINE_BYTES:
            raise EnergyUnknownError(f"{text[:_SHOWN]!a} is not a line of seconds and watts")
        time_s, watts = matched[1], float(matched[2])
        if not watts <= MOST_WATTS:
            raise EnergyUnknownError(f"it told of {watts:.3g} W")
        if time_s == AT_RECEPTION:
            return now.uptime_s, watts
        age_s = now.unix_s - float(time_s)
        if not abs(age_s) <= MOST_AGE_S:
            raise EnergyUnknownError(
                f"a line came {abs(age_s):.1f} s {'late' if age_s > 0 else 'early'} by this host's"
                " clock: the meter's is wrong, or it holds lines back"
            )
        if float(time_s) <= self._last_told_s:
            raise EnergyUnknownError("its times do not rise")
        self._last_told_s = float(time_s)
        self.most_age_s = max(self.most_age_s, abs(age_s))
        return now.uptime_s - age_s, watts

    def _keep(self, at_s: float, watts: float, now: Moment) -> None:
        if self.at_s and at_s <= self.at_s[-1]:
            raise EnergyUnknownError("its times do not rise")
        most = min(MOST_LINES, MOST_LINES_A_SECOND * (now.uptime_s - self.began_s + 1))
        if len(self.at_s) >= most:
            raise EnergyUnknownError(
                f"it told more than {MOST_LINES_A_SECOND} lines a second, or {MOST_LINES} in all"
            )
        self.at_s.append(at_s)
        self.watts.append(watts)

    def samples(self) -> Samples:
        """Return (uptime, watts), ascending."""
        return list(zip(self.at_s, self.watts, strict=True))


def of_meter(log: MeterLog, span: Span, clock_s: float) -> Used:
    """Return the energy of a span of this host's uptime; raises EnergyUnknownError.

    clock_s: error of the span's ends, if they come from another clock.
    """
    if log.trouble:
        raise EnergyUnknownError(f"{SOURCE}: {log.trouble}")
    try:
        require_changes(log.watts, "its reading", "W")
        joules = of_power(log.samples(), span, log.most_age_s + clock_s)
    except EnergyUnknownError as unknown:
        raise EnergyUnknownError(f"{SOURCE}: {unknown}") from unknown
    return Used(joules, span.seconds, SOURCE)
