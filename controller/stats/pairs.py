"""Statistics of paired comparisons: ratios of interleaved pairs, with intervals. Pure.

The agent uses them to decide when enough pairs are measured, and reports show them, so they lie
where both may import them. docs/comparison.md gives the reason for each rule, with figures.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import accumulate, combinations_with_replacement
from statistics import NormalDist, fmean, median, stdev

from controller.contracts.pair import Pair
from controller.contracts.units import Unit

CONFIDENCE = 0.95
"""Confidence of the reported interval."""
LOOK_CONFIDENCE = 0.98
"""Confidence at which it is computed: stopping once it is narrow costs up to 2.5 points."""
MIN_PAIRS = 10
"""Least number of steady pairs for an interval."""
EXACT_PAIRS = 50
"""Up to this number the signed-rank distribution is exact; beyond, the normal one fits to four
digits."""


@dataclass(frozen=True, slots=True)
class PairedRatio:
    """The ratio B / A, in the metric's unit."""

    value: float
    low: float
    high: float
    pairs: int
    """Steady pairs, from which it is computed."""
    warmup_pairs: int
    """Pairs at the beginning that are left out, since they precede the steady state."""
    steady: bool
    """Whether the steady state began within the first half of the pairs."""

    @property
    def width(self) -> float:
        """The interval's width as a fraction of the ratio; infinite without an interval."""
        return (self.high - self.low) / self.value

    @property
    def bounded(self) -> bool:
        """Whether there were enough pairs for an interval."""
        return math.isfinite(self.high)

    @property
    def direction(self) -> int:
        """1 if the interval lies above 1, -1 if below, 0 if it contains 1: no difference is
        shown."""
        return (self.low > 1) - (self.high < 1)

    def inverse(self) -> PairedRatio:
        """Return the ratio A / B."""
        bounds = (1 / self.value, 1 / self.high, 1 / self.low if self.low else math.inf)
        return PairedRatio(*bounds, self.pairs, self.warmup_pairs, self.steady)


def ratio_of_pairs(*sessions: Sequence[Pair]) -> PairedRatio:
    """Return the ratio B / A with its interval, from the pairs of one or more sessions.

    Each pair gives one ratio of medians. The logarithms of the ratios lie symmetrically around the
    truth, because the order within a pair is random. So the interval is that of Wilcoxon's
    signed-rank test (Hodges & Lehmann 1963), which assumes only symmetry. For several sessions it
    is that of `sessions_interval`. With fewer than MIN_PAIRS steady pairs the interval is (0, ∞).
    Raises ValueError for a session without pairs.
    """
    starts, logs = zip(*(_steady_ratios(pairs) for pairs in sessions), strict=True)
    middle, low, high = sessions_interval(logs)
    return PairedRatio(
        value=math.exp(middle),
        low=math.exp(low),
        high=math.exp(high),
        pairs=sum(len(of_session) for of_session in logs),
        warmup_pairs=sum(starts),
        steady=all(
            start < max(1, len(pairs) // 2) for start, pairs in zip(starts, sessions, strict=True)
        ),
    )


def _steady_ratios(pairs: Sequence[Pair]) -> tuple[int, list[float]]:
    """Return the number of warm-up pairs, and the logarithms of the other pairs' ratios."""
    if not pairs:
        raise ValueError("there is no pair to take a ratio of")
    sides = [(math.log(median(pair.a)), math.log(median(pair.b))) for pair in pairs]
    # The sum is independent of which side went first, so choosing the start by it causes no bias.
    start = steady_from([a + b for a, b in sides])
    return start, [b - a for a, b in sides[start:]]


def times_better(ratio: PairedRatio, unit: Unit) -> PairedRatio:
    """Return how many times better B is than A; unit: of the compared metric."""
    return ratio.inverse() if unit.lower_is_better else ratio


def enough(ratio: PairedRatio, width: float) -> bool:
    """Return whether a steady ratio's interval is narrower than the wanted width."""
    return ratio.steady and ratio.pairs >= MIN_PAIRS and ratio.width <= width


def steady_from(levels: Sequence[float]) -> int:
    """Return where a series becomes steady: the number of values to leave out, at most half.

    MSER (White 1997): the truncation that minimises the squared standard error of the mean of the
    remaining values.
    """
    count = len(levels)
    errors = {}
    for start in range(count // 2 + 1):
        rest = levels[start:]
        mean = math.fsum(rest) / len(rest)
        errors[start] = math.fsum((x - mean) ** 2 for x in rest) / len(rest) ** 2
    return min(errors, key=lambda start: errors[start])


def signed_rank_interval(
    values: Sequence[float], confidence: float = LOOK_CONFIDENCE
) -> tuple[float, float, float]:
    """Return the centre of symmetry (Hodges & Lehmann 1963) and its interval: middle, low, high.

    The bounds are order statistics of the means of all pairs of values, each value also paired with
    itself; the interval is unbounded below MIN_PAIRS values.
    """
    means = sorted((x + y) / 2 for x, y in combinations_with_replacement(values, 2))
    middle = median(means)
    if len(values) < MIN_PAIRS:
        return middle, -math.inf, math.inf
    outside = ranks_outside(len(values), confidence)
    return middle, means[outside], means[-1 - outside]


def sessions_interval(sessions: Sequence[Sequence[float]]) -> tuple[float, float, float]:
    """Return middle, low and high of one or more sessions; for one, from its values alone.

    A session's processes get their memory layout once, and all its pairs share its effect. So each
    session counts as one draw: the interval is Student's (1908) around the mean of the sessions'
    centres, and wide for two sessions; but it is never narrower than that of all values together,
    in case the centres agree by chance.
    """
    pooled, low, high = signed_rank_interval([value for values in sessions for value in values])
    if len(sessions) == 1:
        return pooled, low, high
    centres = [signed_rank_interval(values)[0] for values in sessions]
    middle = fmean(centres)
    reach = t_quantile(len(centres) - 1, CONFIDENCE) * stdev(centres) / math.sqrt(len(centres))
    return middle, min(low, middle - reach), max(high, middle + reach)


def t_quantile(freedom: int, confidence: float) -> float:
    """Return the two-sided quantile of Student's t."""
    from scipy.special import stdtrit  # takes 0.5 s; an agent's comparison has one session

    return float(stdtrit(freedom, (1 + confidence) / 2))


@lru_cache(maxsize=1024)
def ranks_outside(count: int, confidence: float) -> int:
    """Return how many of the means of pairs lie outside the interval, at each end.

    It is the critical value of Wilcoxon's test: the greatest k for which the signed-rank
    statistic is k or less with a probability of at most (1 - confidence) / 2. SciPy tests by that
    distribution, but has no function for its quantiles.
    """
    tail = (1 - confidence) / 2
    if count <= EXACT_PAIRS:
        cumulative = accumulate(_signed_rank_probabilities(count))
        return sum(probability <= tail for probability in cumulative) - 1
    mean = count * (count + 1) / 4
    deviation = math.sqrt(count * (count + 1) * (2 * count + 1) / 24)
    return math.floor(mean + NormalDist().inv_cdf(tail) * deviation)


def _signed_rank_probabilities(count: int) -> list[float]:
    """Return P(T = t) of the signed-rank statistic T, in which each rank counts with probability
    1/2."""
    chances = [1.0]
    for rank in range(1, count + 1):
        padding = [0.0] * rank
        without, with_rank = chances + padding, padding + chances
        chances = [(x + y) / 2 for x, y in zip(without, with_rank, strict=True)]
    return chances
