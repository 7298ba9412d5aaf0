"""Rounds of a profiled job: timed, then watched, and again if only the machine changed. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from agents.host.disturbance import OWN_SPEED
from controller.contracts.result import Result
from controller.profiles.model import Profile
from controller.profiles.validity import NOISE

MOST_ROUNDS: Final = 4


@dataclass(frozen=True, slots=True)
class Round:
    """The runs of a round, and the profile of them. The files are those of the last round."""

    plain: Result
    traced: Result
    verbose: Result
    profile: Profile

    @property
    def medians(self) -> tuple[float, ...]:
        """The step of each run, in seconds."""
        return tuple(run.metrics["step_time"].value for run in self._runs)

    @property
    def may_be_chance(self) -> bool:
        """Whether its steps are not alike, though nothing was seen that disturbed them.

        No counter shows the neighbours of a virtual machine, which take its speed for seconds.
        """
        return is_quiet(*self._runs) and bool(self.profile.summary.reasons)

    @property
    def _runs(self) -> tuple[Result, ...]:
        return self.plain, self.traced, self.verbose


def is_quiet(*runs: Result) -> bool:
    """Return whether nothing was seen beside some runs but the machine's own speed, at most."""
    return all(reason.startswith(OWN_SPEED) for run in runs for reason in run.reasons)


def is_another_due(rounds: Sequence[Round]) -> bool:
    """Return whether another round may find the machine at one speed.

    It can't if the runs took as long as in the round before: then watching makes the difference.
    """
    *before, last = rounds
    if len(rounds) >= MOST_ROUNDS or not last.may_be_chance:
        return False
    pairs = zip(before[-1].medians, last.medians, strict=True) if before else ()
    return not before or any(abs(new / old - 1) > NOISE for old, new in pairs)
