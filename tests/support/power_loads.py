"""Electrical loads of exactly known energy: power that is constant between given moments."""

from __future__ import annotations

from bisect import bisect_right
from dataclasses import dataclass
from itertools import accumulate, pairwise

from agents.energy.trace import Span

RUN = Span(0.0, 90.0)
REST = Span(-24.0, -6.0)
BEGIN_S = -28.0
IDLE_W = 2.0


@dataclass(frozen=True, slots=True)
class Load:
    """Watts from each moment on; the first moment is the beginning of time."""

    steps: tuple[tuple[float, float], ...]

    def watts(self, at_s: float) -> float:
        """Return the power at a moment."""
        return self.steps[bisect_right(self.steps, at_s, key=lambda step: step[0]) - 1][1]

    def joules(self, at_s: float) -> float:
        """Return the energy since the beginning."""
        before = accumulate((w * (b - a) for (a, w), (b, _) in pairwise(self.steps)), initial=0.0)
        place = bisect_right(self.steps, at_s, key=lambda step: step[0]) - 1
        began_s, watts = self.steps[place]
        return list(before)[place] + watts * (at_s - began_s)

    def over(self, span: Span) -> float:
        """Return the energy of a span: exact."""
        return self.joules(span.ended_s) - self.joules(span.began_s)


def _after_idling(*steps: tuple[float, float]) -> Load:
    return Load(((BEGIN_S, IDLE_W), (-5.0, 3.5), *steps))


CONSTANT = _after_idling((0.0, 6.0), (90.0, IDLE_W))
STEPS = _after_idling((0.0, 6.0), (40.0, 7.0), (70.0, 5.5), (90.0, IDLE_W))
BURSTS = _after_idling(
    *((begin + at, watts) for begin in range(0, 90, 5) for at, watts in ((0.0, 9.0), (1.5, 3.0))),
    (90.0, IDLE_W),
)
LOADS = {"constant": CONSTANT, "steps": STEPS, "bursts": BURSTS}
