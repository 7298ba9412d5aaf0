"""The clocks of the hosts against the controller's: measured, never trusted. Pure: no clock.

An agent reads its clock between the controller's last answer and the arrival of its next question,
both of which the controller has times of its own for: the narrower they are, the better it knows
how far that clock is off (as in NTP, RFC 5905 section 8, with the controller as the client).
"""

from __future__ import annotations

from typing import Final

WIDE_S: Final = 1.0
"""An answer and the next question further apart than this tell nothing."""
STEP_S: Final = 0.25
"""A clock that has moved by less is taken for the same: nothing is written down anew."""
OFF_S: Final = 2.0
"""A clock that is further off is told of wherever agents are listed."""


class Clocks:
    """What the controller has heard of its agents' clocks.

    steady: seconds by a clock of the controller's that nobody sets, so that its own wall clock may
    be set between an answer and a question.
    """

    def __init__(self) -> None:
        self._answered: dict[str, float] = {}
        self._read: dict[str, float] = {}

    def answered(self, agent_id: str, steady: float) -> None:
        """Note that an agent is given an answer now, after which it asks again."""
        self._answered[agent_id] = steady

    def heard(self, agent_id: str, asked_at: float, now: float, steady: float) -> float | None:
        """Return how many seconds an agent's clock is ahead, by a question that comes in now.

        asked_at: by that clock; now: by the controller's. None if it can't be told: it is the
        first question, one that has been heard before, or one that was long on its way.
        """
        answered = self._answered.get(agent_id)
        heard_before = self._read.get(agent_id) == asked_at
        self._read[agent_id] = asked_at
        if answered is None or heard_before or steady - answered > WIDE_S:
            return None
        return asked_at - (now - (steady - answered) / 2)


def moved(before: float | None, after: float) -> bool:
    """Return whether a clock's difference is news."""
    return before is None or abs(after - before) >= STEP_S


def by_our_clock(said: float, ahead_s: float | None, earliest: float, latest: float) -> float:
    """Return what an agent's time is by the controller's clock.

    earliest, latest: between which it must have been, whatever the agent's clock says.
    """
    return min(max(said - (ahead_s or 0.0), earliest), latest)
