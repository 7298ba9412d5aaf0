"""How many times better results are than a baseline's: of one work, and beyond chance or not."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Literal

from controller.dashboards.promql import (
    Expr,
    by_labels,
    count,
    extreme,
    last,
    matched,
    median,
    only,
    over,
)
from controller.dashboards.units import COUNT, TIMES_BETTER, UNIT_OF_RESULT
from controller.metrics import names
from controller.metrics.names import Metric

Pick = Callable[[Metric], Expr]
"""Returns the chosen series of `result`, or of `result_interval_factor`: they have its labels."""

_RANKED = ("scenario", "metric")


@dataclass(frozen=True, slots=True)
class Judged:
    """Ratios, and those among them that are more than chance."""

    every: Expr
    settled: Expr
    """Those whose 95 % interval is known and leaves 1 out."""


@dataclass(frozen=True, slots=True)
class Ratios(Judged):
    """Ratios of single results to a baseline's."""

    off: Expr
    """Half the width of each one's 95 % interval, as a logarithm; where it is known."""


@dataclass(frozen=True, slots=True)
class Overall:
    """Geometric means of ratios over all works that the baseline was measured at."""

    mean: Expr
    low: Expr
    high: Expr
    works: Expr
    """How many there are."""


def ranked(results: Expr) -> Expr:
    """Return only results in the metric that ranks their scenario."""
    return only(results, last(names.RANKING), *_RANKED)


def best(metric: str, results: Expr, *by: str) -> Expr:
    """Return the best result of each group, where this metric ranks; results: in this metric."""
    which: Literal["topk", "bottomk"]
    which = "bottomk" if UNIT_OF_RESULT[metric].lower_is_better else "topk"
    found = extreme(which, 1, ranked(results), *by)
    return over("max", found, *sorted(found.labels - {"metric"}))


def times_better(results: Pick, base: Pick, *on: str) -> Ratios:
    """Return how many times better each ranked result is than the baseline's of the same work.

    `ranking_direction` is 1 where more is better and -1 where less is: as the exponent it turns
    the ratio of times upside down, and it leaves out metrics that rank nothing. The squares of
    both sides' half-widths add up, as in the recorded ratios (controller/metrics/rules.py).
    """
    same = (*on, "work", "metric")
    result, factor = results(names.RESULT), results(names.RESULT_INTERVAL)
    every = _divided(result, base(names.RESULT), same)
    of_result, of_base = (
        replace(one, text=f"ln({one.text}) ^ 2") for one in (factor, base(names.RESULT_INTERVAL))
    )
    both = matched(of_result, "+", of_base, same, grouped=())
    off = Expr(f"sqrt({both})", result.labels, COUNT)
    # Few results of a large fleet have an interval: only they are divided again.
    known = _divided(only(result, factor, *sorted(factor.labels)), base(names.RESULT), same).text
    settled = f"({known} and (abs(ln({known})) > {off.text}))"
    return Ratios(every, replace(every, text=settled), off)


def _divided(result: Expr, base: Expr, same: tuple[str, ...]) -> Expr:
    ratio = replace(result, text=matched(result, "/", base, same, grouped=()))
    turned = matched(ratio, "^", last(names.RANKING), _RANKED, grouped=())
    return Expr(turned, result.labels, TIMES_BETTER)


def of_groups(ratios: Judged, *by: str) -> Judged:
    """Return the median ratio of each group; settled if all of its are, and to the same side."""
    side = f"abs(sum{by_labels(by)} (sgn({ratios.settled.text} - 1)))"
    those = median(ratios.settled, *by)  # all of them, where it is shown
    agreed = f"({those.text} and ({side} == {count(ratios.every, *by).text}))"
    return Judged(median(ratios.every, *by), replace(those, text=agreed))


def overall(ratios: Ratios, base: Expr, *by: str) -> Overall:
    """Return the geometric mean of the ratios of each group that has all works of the baseline.

    by: includes `device`. base: the baseline's results; where a group lacks one of them, its mean
    would be of other works than that of the next.
    """
    every, off = ratios.every, ratios.off
    kinds = [label for label in by if label != "device"]
    works = count(every, *by)
    whole = matched(works, "==", count(ranked(base), *kinds), kinds, grouped=())
    mean = f"(exp(avg{by_labels(by)} (ln({every.text}))) and {whole})"
    known = f"(count{by_labels(by)} ({off.text}) == {works.text})"
    width = f"(sqrt(sum{by_labels(by)} ({off.text} ^ 2)) / {known})"
    means = Expr(mean, frozenset(by), TIMES_BETTER)
    return Overall(
        means,
        low=replace(means, text=f"({mean} / exp({width}))"),
        high=replace(means, text=f"({mean} * exp({width}))"),
        works=replace(works, text=whole),
    )
