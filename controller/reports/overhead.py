"""Our overhead per query, from interleaved pairs. Pure."""

from __future__ import annotations

import math
from collections.abc import Sequence
from statistics import median

from controller.contracts.base import Contract
from controller.contracts.pair import Pair
from controller.stats.pairs import CONFIDENCE, signed_rank_interval


class Overhead(Contract):
    """How much longer a query takes through LoadGen and our runner than in a bare loop."""

    pairs: int
    query_s: float
    """Median period of the bare loop."""
    ratio: float
    ratio_low: float
    ratio_high: float


def overhead_of(pairs: Sequence[Pair]) -> Overhead:
    """Return the overhead from MIN_PAIRS or more pairs of periods in seconds; A is the bare loop.

    The number of pairs is fixed and the model is warm, so no pair is left out.
    """
    logs = [math.log(median(pair.b) / median(pair.a)) for pair in pairs]
    value, low, high = map(math.exp, signed_rank_interval(logs, CONFIDENCE))
    return Overhead(
        pairs=len(pairs),
        query_s=median(period for pair in pairs for period in pair.a),
        ratio=value,
        ratio_low=low,
        ratio_high=high,
    )
