"""What a ratio of B's merit to A's shows, as a word for programs and a sentence for people. Pure.

The one place of these words: command line, JSON, sweep tables and HTML reports all use it.
"""

from __future__ import annotations

import math
from enum import StrEnum

from controller.contracts.sweep import Stopping
from controller.stats.medians import Ratio
from controller.stats.pairs import CONFIDENCE

PRECISION = Stopping().width
"""The precision that counts where none was asked for: a comparison's default."""
WIDEST_EQUAL = 0.1
"""No wider interval shows that two sides are equal, whatever precision was asked for."""
FINEST = 1e-4
"""Nothing is called equal within less: samples are not measured more finely."""


class ComparisonOutcome(StrEnum):
    """What the interval of a ratio shows."""

    A_FASTER = "a_faster"
    B_FASTER = "b_faster"
    EQUAL = "equal"
    """The interval contains 1 and is as narrow as was asked."""
    NOT_RESOLVED = "not_resolved"
    """The interval contains 1 and is wider than was asked: either may be the faster one."""
    NO_INTERVAL = "no_interval"
    """Too little was measured."""


def outcome_of(ratio: Ratio, asked: float | None = None) -> ComparisonOutcome:
    """Return what a ratio shows.

    asked: the width of the interval, as a share of the ratio, that the comparison was to reach.
    """
    if not _bounded(ratio):
        return ComparisonOutcome.NO_INTERVAL
    if ratio.shown:
        faster = ratio.value > 1
        return ComparisonOutcome.B_FASTER if faster else ComparisonOutcome.A_FASTER
    narrow = _width(ratio) <= min(asked or PRECISION, WIDEST_EQUAL)
    return ComparisonOutcome.EQUAL if narrow else ComparisonOutcome.NOT_RESOLVED


def verdict(ratio: Ratio, asked: float | None = None) -> str:
    """Return one sentence: who is faster, or that they are equal, or what is missing; `asked` as
    in outcome_of. It always has the ratio, and the interval if there is one."""
    outcome = outcome_of(ratio, asked)
    if outcome is ComparisonOutcome.NO_INTERVAL:
        return f"no verdict: {ratio.value:.2f}×, and too little was measured for an interval"
    if outcome is ComparisonOutcome.B_FASTER:
        return f"B is {times(ratio)} faster, {_with_confidence(ratio)}{_missed(ratio, asked)}"
    if outcome is ComparisonOutcome.A_FASTER:
        turned = inverse(ratio)
        return f"A is {times(turned)} faster, {_with_confidence(turned)}{_missed(turned, asked)}"
    found = f"B is {times(ratio)} as fast as A, {_with_confidence(ratio)}"
    if outcome is ComparisonOutcome.EQUAL:
        return f"{tie(ratio, asked)}: {found}"
    return f"not resolved: {found}, {precision(ratio, asked)}"


def tie(ratio: Ratio, asked: float | None = None) -> str:
    """Return what is said of a ratio whose interval contains 1; empty for any other."""
    outcome = outcome_of(ratio, asked)
    if outcome is ComparisonOutcome.EQUAL:
        return f"equal within {percent(_band(ratio))}"
    return "not resolved" if outcome is ComparisonOutcome.NOT_RESOLVED else ""


def precision(ratio: Ratio, asked: float | None = None) -> str:
    """Return how wide an interval is, and how narrow it was to be."""
    width = _width(ratio)
    limit = "needs" if asked is None else "asked"
    wide = f"{percent(width)} wide (±{percent(width / 2)}), {limit} {percent(asked or PRECISION)}"
    if asked is not None and width <= asked:
        return f"{wide}; more than {percent(WIDEST_EQUAL)} is never called equal"
    return wide


def times(ratio: Ratio) -> str:
    """Return the ratio alone, with as many places as its interval deserves."""
    return f"{ratio.value:.{_decimals(ratio)}f}×"


def bounds(ratio: Ratio) -> str:
    """Return the interval alone; empty without one."""
    if ratio.interval is None:
        return ""
    places = _decimals(ratio)
    low, high = (_number(end, places) for end in ratio.interval)
    return f"[{low}, {high}]"


def inverse(ratio: Ratio) -> Ratio:
    """Return how A stands to B."""
    if ratio.interval is None:
        return Ratio(1 / ratio.value, None)
    low, high = ratio.interval
    return Ratio(1 / ratio.value, (1 / high, 1 / low))


def percent(share: float) -> str:
    """Return a share as a percentage, rounded up to two significant digits or to a whole one."""
    value = share * 100
    if value <= 0:
        return "0 %"
    unit = 10.0 ** min(0, math.floor(math.log10(value)) - 1)
    # A hair less: 1.004 - 1 is a little more than 0.004.
    return f"{math.ceil(value / unit - 1e-6) * unit:.10g} %"


def _bounded(ratio: Ratio) -> bool:
    return ratio.interval is not None and ratio.interval[0] > 0 and math.isfinite(ratio.interval[1])


def _width(ratio: Ratio) -> float:
    """Return an interval's width as a share of the ratio, that of B to A or of A to B.

    The smaller of the two, so that it is the same whichever way round: a comparison stops by one
    of them, for times and for rates by different ones.
    """
    low, high = ratio.interval or (0.0, math.inf)
    return (high - low) * min(1 / ratio.value, ratio.value / (low * high))


def _band(ratio: Ratio) -> float:
    """Return the smallest x for which 1 ± x holds the interval."""
    low, high = ratio.interval or (0.0, math.inf)
    return max(high - 1, 1 - low, FINEST)


def _missed(ratio: Ratio, asked: float | None) -> str:
    """Return what is said of a difference that is shown less precisely than was asked."""
    return "" if asked is None or _width(ratio) <= asked else f"; {precision(ratio, asked)}"


def _with_confidence(ratio: Ratio) -> str:
    return f"{CONFIDENCE * 100:.0f} % {bounds(ratio)}"


def _decimals(ratio: Ratio) -> int:
    """Return as many places as tell the ends of an interval apart, and from 1."""
    low, high = ratio.interval or (ratio.value, ratio.value)
    least = min(high - low, abs(low - 1) or 1.0, abs(high - 1) or 1.0)
    return min(6, max(2, math.ceil(-math.log10(least)))) if 1e-6 < least < math.inf else 2


def _number(value: float, places: int) -> str:
    text = f"{value:.{places}f}"
    return f"{value:.1g}" if value > 0 and float(text) == 0 else text
