"""Interleaved pairs of turns, and what they say. Pure.

The agent decides by it when enough has been measured, and reports show it again, so it lies where
both may import it. docs/comparison.md tells why each rule is as it is, with figures.
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
"""What an interval promises."""
LOOK_CONFIDENCE = 0.98
"""What it is computed at: stopping as soon as it is narrow costs up to two points and a half."""
MIN_PAIRS = 10
"""Fewer steady pairs give no interval."""
EXACT_PAIRS = 50
"""Up to here the signed-rank distribution is computed, beyond it is normal to four digits."""


@dataclass(frozen=True, slots=True)
class PairedRatio:
    """How many times B is A, in the metric's unit."""

    value: float
    low: float
    high: float
    pairs: int
    """Steady pairs: those it was made from."""
    warmup_pairs: int
    """Pairs before the steady state; they come first and are left out."""
    steady: bool
    """Whether the steady state began before half of the pairs were over."""

    @property
    def width(self) -> float:
        """The interval's width as a share of the ratio; infinite without an interval."""
        return (self.high - self.low) / self.value

    @property
    def bounded(self) -> bool:
        """Whether there were enough pairs for an interval."""
        return math.isfinite(self.high)

    @property
    def direction(self) -> int:
        """1 if the interval lies above 1, -1 if below, 0 if it holds 1: no difference is shown."""
        return (self.low > 1) - (self.high < 1)

    def inverse(self) -> PairedRatio:
        """Return how many times A is B."""
        bounds = (1 / self.value, 1 / self.high, 1 / self.low if self.low else math.inf)
        return PairedRatio(*bounds, self.pairs, self.warmup_pairs, self.steady)


def ratio_of_pairs(*sessions: Sequence[Pair]) -> PairedRatio:
    """Return the ratio B / A with its interval, from the pairs of one or more sessions.

    Each pair gives one ratio of medians. Their logarithms lie symmetrically around the truth,
    because a coin decides which side goes first; so the interval is that of Wilcoxon's signed-rank
    test (Hodges & Lehmann 1963), which asks for nothing else. Of several sessions it is that of
    `sessions_interval`. Fewer than MIN_PAIRS steady pairs give the interval (0, ∞). Raises
    ValueError for a session without pairs.
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
    """Return how many pairs are warm-up, and the logarithms of the ratios of the others."""
    if not pairs:
        raise ValueError("there is no pair to take a ratio of")
    sides = [(math.log(median(pair.a)), math.log(median(pair.b))) for pair in pairs]
    # The sum does not tell which side went first: leaving pairs out by it biases nothing.
    start = steady_from([a + b for a, b in sides])
    return start, [b - a for a, b in sides[start:]]


def times_better(ratio: PairedRatio, unit: Unit) -> PairedRatio:
    """Return how many times better B is than A, where the ratio is that of a metric in a unit."""
    return ratio.inverse() if unit.lower_is_better else ratio


def enough(ratio: PairedRatio, width: float) -> bool:
    """Whether the interval is narrower than the wanted width, in the steady state."""
    return ratio.steady and ratio.pairs >= MIN_PAIRS and ratio.width <= width


def steady_from(levels: Sequence[float]) -> int:
    """Return where a series becomes steady: how many values to leave out, at most half of them.

    MSER (White 1997): the truncation that minimises the squared standard error of the mean of
    what remains.
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

    The interval lies between order statistics of the means of all pairs of values, each with
    itself too; it is unbounded below MIN_PAIRS values.
    """
    means = sorted((x + y) / 2 for x, y in combinations_with_replacement(values, 2))
    middle = median(means)
    if len(values) < MIN_PAIRS:
        return middle, -math.inf, math.inf
    outside = ranks_outside(len(values), confidence)
    return middle, means[outside], means[-1 - outside]


def sessions_interval(sessions: Sequence[Sequence[float]]) -> tuple[float, float, float]:
    """Return middle, low and high of one or more sessions: of one, by its values alone.

    A session's processes have their luck with memory once, and all its pairs share that. So
    several sessions are as many draws as there are of them: the interval is Student's (1908)
    around the mean of their centres, wide for two; but never narrower than that of all their
    values, should the centres happen to agree.
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
    """Return how many of the means of pairs lie outside the interval, at either end.

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
    """Return P(T = t) of the signed-rank statistic T: each rank counts or not, by a coin."""
    chances = [1.0]
    for rank in range(1, count + 1):
        padding = [0.0] * rank
        without, with_rank = chances + padding, padding + chances
        chances = [(x + y) / 2 for x, y in zip(without, with_rank, strict=True)]
    return chances
