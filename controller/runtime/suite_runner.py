"""Carrying a session of the mobile suite to its end: submitting, following, pausing."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Final, Protocol

from controller.contracts.base import utc_minute
from controller.contracts.suite_session import RuleVerdict, Verdict
from controller.contracts.sweep import Sweep
from controller.scheduling.suite_plan import Part, Place
from controller.scheduling.suite_session import (
    Ended,
    Follow,
    Pauses,
    Session,
    Submit,
    Wait,
    next_step,
)

LOOK_S: Final = 30.0
"""Longest sleep between two looks at the clock, which may be set meanwhile."""


class SessionPlan(Protocol):
    """What is run in each try of a session."""

    @property
    def parts(self) -> Sequence[Part]:
        """What is run in each try, in order; called before each step."""
        ...

    def sweep(self, place: Place) -> Sweep:
        """Return the sweep of a part in a try; called before it is submitted."""
        ...


class SessionFarm(Protocol):
    """The farm, as a session needs it."""

    def session(self) -> Session:
        """Return the session so far; called before each step."""
        ...

    def submit(self, sweep: Sweep) -> None:
        """Queue a part; called once the device may take it. Raises UserError if it can't."""
        ...

    def follow(self, sweep_id: str) -> None:
        """Return when a part has ended; raises FarmUnavailable."""
        ...


@dataclass(frozen=True, slots=True)
class Timer:
    """The time of day, and how to let it pass."""

    now: Callable[[], float] = time.time
    """Seconds since the epoch."""
    sleep: Callable[[float], None] = time.sleep


@dataclass(slots=True)
class SessionRunner:
    """Carries one session to its end; one that was broken off goes on where it was."""

    plan: SessionPlan
    tries: int
    pauses: Pauses
    farm: SessionFarm
    judged: Callable[[Session], tuple[RuleVerdict, ...]]
    say: Callable[[str], None]
    timer: Timer = Timer()
    _missed: set[str] = field(default_factory=set)
    """Rules that were said to be missed."""
    _paused: Place | None = None
    """The part before which a pause was said."""

    def run(self) -> Ended:
        """Carry the session on to its end; raises what the farm raises."""
        while True:
            session = self.farm.session()
            self._say_missed(session)
            step = next_step(
                session, len(self.plan.parts), self.tries, self.pauses, self.timer.now()
            )
            match step:
                case Ended():
                    return step
                case Wait():
                    self._wait(step)
                case Submit(place=place):
                    self.say(self._named(place))
                    self.farm.submit(self.plan.sweep(place))
                case Follow(run=run):
                    self.farm.follow(run.sweep_id)

    def _wait(self, step: Wait) -> None:
        left = step.until - self.timer.now()
        if step.place != self._paused:
            self._paused = step.place
            self.say(f"pause of {left:.0f} s, until {utc_minute(step.until)}")
        self.timer.sleep(min(max(left, 0.0), LOOK_S))

    def _named(self, place: Place) -> str:
        part, parts = self.plan.parts[place.part], len(self.plan.parts)
        where = f"try {place.number} of {self.tries}, part {place.part + 1} of {parts}"
        return f"{where}: {part.workload} {part.scenario}"

    def _say_missed(self, session: Session) -> None:
        """Say once which rules the session can no longer meet, and why."""
        for rule in self.judged(session):
            if rule.verdict is Verdict.MISSED and rule.rule not in self._missed:
                self._missed.add(rule.rule)
                more = f" (and {len(rule.why) - 1} more)" if len(rule.why) > 1 else ""
                self.say(f"rule missed, {rule.rule}: {rule.why[0]}{more}")
