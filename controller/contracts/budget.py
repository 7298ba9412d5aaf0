"""The budget of a step: its time, its time at the machine's peaks, and what is in between."""

from __future__ import annotations

from typing import Literal

from controller.contracts.base import Contract


class BudgetLine(Contract):
    """A part of a step, in seconds of a step; the last five add up to the first."""

    phase: str = ""
    operation: str = ""
    """A primitive with its direction, or a kernel; empty for all of a phase."""
    seconds: float
    at_peak_s: float
    """What the work whose roof is known would take at it."""
    above_roof_s: float
    """Longer than the roofline allows, of the same work."""
    no_roof_s: float
    """What kernels do around their primitives, often most of it; kernels that mostly call others;
    views; work of which FLOPs or bytes are not known, or for which no peak was measured."""
    waiting_s: float
    in_no_op_s: float
    """Python, the framework between its ops, and compiled regions that name none."""

    @property
    def between_s(self) -> float:
        """The time above what the peaks explain."""
        return self.above_roof_s + self.no_roof_s + self.waiting_s + self.in_no_op_s


class Budget(Contract):
    """A step's budget; `phases` and `operations` each add up to `step`."""

    per_step: bool
    """Whether seconds are those of a step; else in all, as nothing tells steps apart."""
    op_threads: int
    """Threads that ran ops; of several, seconds are sums over threads, which may exceed a step."""
    validity: Literal["VALID", "DISTURBED", "INVALID"]
    """Of the profile."""
    reasons: tuple[str, ...] = ()
    """Why it is not VALID; none if it is."""
    step: BudgetLine
    phases: tuple[BudgetLine, ...]
    """In the order of a step."""
    operations: tuple[BudgetLine, ...]
    """By phase, the most time in between first."""
    faster_at_peaks: float | None
    """How many times as fast the step is if its work ran at the peaks and all else took no time;
    None if no roof is known."""
    faster_without_headroom: float | None
    """The same if only what is above a known roof were gained."""
