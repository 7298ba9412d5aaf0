"""Measuring the offset of each host's clock from the controller's. Pure: no clock.

An agent reads its clock after it gets the controller's answer and before its next request arrives.
The controller knows both times by its own clock, so the shorter the interval, the more exact the
offset (as in NTP, RFC 5905 section 8, with the controller as the client).
"""

from __future__ import annotations

from typing import Final

WIDE_S: Final = 1.0
"""Longest interval between an answer and the next request that is used."""
STEP_S: Final = 0.25
"""Smallest change of an offset that is recorded."""
OFF_S: Final = 2.0
"""Offset from which `agent list` prints a warning."""


class Clocks:
    """The last answers to agents and the last times of their clocks.

    steady: seconds of a monotonic clock, so that the wall clock may be set between an answer and a
    request.
    """

    def __init__(self) -> None:
        self._answered: dict[str, float] = {}
        self._read: dict[str, float] = {}

    def answered(self, agent_id: str, steady: float) -> None:
        """Record that an agent is answered now; its next request follows."""
        self._answered[agent_id] = steady

    def heard(self, agent_id: str, asked_at: float, now: float, steady: float) -> float | None:
        """Return the seconds by which an agent's clock is ahead, from a request that arrives now.

        asked_at: the time by the agent's clock; now: by the controller's. Return None for the first
        request, a repeated one, and one that arrives too late after the answer.
        """
        answered = self._answered.get(agent_id)
        heard_before = self._read.get(agent_id) == asked_at
        self._read[agent_id] = asked_at
        if answered is None or heard_before or steady - answered > WIDE_S:
            return None
        return asked_at - (now - (steady - answered) / 2)


def moved(before: float | None, after: float) -> bool:
    """Return whether an offset has changed enough to record it."""
    return before is None or abs(after - before) >= STEP_S


def by_our_clock(said: float, ahead_s: float | None, earliest: float, latest: float) -> float:
    """Return a time of an agent's clock by the controller's clock.

    earliest, latest: bounds that hold whatever the agent's clock says.
    """
    return min(max(said - (ahead_s or 0.0), earliest), latest)
