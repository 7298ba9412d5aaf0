"""What interleaved pairs say of our overhead. Pure."""

from __future__ import annotations

from statistics import median

from controller.contracts.base import Contract
from controller.reports.statistics import Runs, paired_ratio


class Overhead(Contract):
    """How much longer a query takes through LoadGen and our runner than in a bare loop."""

    pairs: int
    query_s: float
    """Median period of the bare loop."""
    ratio: float
    ratio_low: float
    ratio_high: float


def overhead_of(harness_s: Runs, bare_s: Runs) -> Overhead:
    """Judge raw periods in seconds, one sequence a pair."""
    ratio = paired_ratio(harness_s, bare_s)
    low, high = ratio.interval or (ratio.value, ratio.value)
    return Overhead(
        pairs=len(bare_s),
        query_s=median(period for pair in bare_s for period in pair),
        ratio=ratio.value,
        ratio_low=low,
        ratio_high=high,
    )
