"""What a comparison's time limit will be spent on, judged by an earlier comparison. Pure."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from itertools import pairwise
from statistics import median

from controller.contracts.records import StoredResult
from controller.reports.result_selection import Wanted, is_comparison_of
from controller.stats.pairs import MIN_PAIRS


@dataclass(frozen=True, slots=True)
class Expected:
    """How long the parts of a comparison take."""

    setup_s: float
    """Until the first pair was over: both sides start, build, compile and warm up."""
    pair_s: float

    @property
    def least_s(self) -> float:
        """How long the fewest pairs that give an interval take, set-up included."""
        return self.setup_s + MIN_PAIRS * self.pair_s


def expected_of(results: Iterable[StoredResult], wanted: Wanted) -> Expected | None:
    """Return what the first of some results that compares the same sides took, if one does."""
    return next((e for r in results if is_comparison_of(r, wanted) and (e := _taken(r))), None)


def plan_text(limit_s: float, expected: Expected | None) -> str:
    """Return, before anything is measured, what the time will be spent on."""
    limit = f"at most {limit_s:g} s once a device is free"
    if expected is None:
        return f"{limit}: both sides start, build and compile in it; pairs get what remains"
    spent = f"about {expected.setup_s:.0f} s until both sides have started, as the last time"
    if expected.least_s <= limit_s:
        return f"{limit}, of which {spent}, and {limit_s - expected.setup_s:.0f} s for pairs"
    return (
        f"{limit}, which is too short: {spent}, and {MIN_PAIRS} pairs of {expected.pair_s:.1f} s "
        f"for an interval. Give --time-limit {expected.least_s:.0f} or more."
    )


def _taken(result: StoredResult) -> Expected | None:
    started = result.environment.get("setup_s")
    ends = [pair.ended_s for pair in result.pairs if pair.ended_s is not None]
    if not isinstance(started, int | float) or len(ends) < 2:
        return None
    return Expected(started + ends[0], median(later - one for one, later in pairwise(ends)))
