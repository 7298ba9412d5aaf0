"""How many times better results are than a baseline's: of one work, and beyond chance or not."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Literal

from controller.dashboards import promql
from controller.dashboards.promql import (
    PSNR,
    Expr,
    WrongQuery,
    by_labels,
    count,
    extreme,
    last,
    matched,
    median,
    only,
    over,
)
from controller.dashboards.units import COUNT, DECIBELS, TIMES_BETTER, lower_is_better
from controller.metrics import names, rules
from controller.metrics.names import Metric

Pick = Callable[[Metric], Expr]
"""Returns the chosen series of a metric with the labels of `result`."""

_RANKED = ("scenario", "metric")
_RECORDED = ((names.RATIO_TO_DEVICE, rules.SAME_STACK), (names.RATIO_TO_STACK, rules.SAME_DEVICE))
"""Recorded ratios, each with the labels by which results share a baseline."""


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
    which = "bottomk" if lower_is_better(metric) else "topk"
    found = extreme(which, 1, ranked(results), *by)
    return over("max", found, *sorted(found.labels - {"metric"}))


def quality(results: Expr, unit: str) -> Expr:
    """Return only results in the metric of their workload's quality target.

    unit: of that metric; results in metrics of several units don't fit one column.
    """
    judged = only(results, last(names.QUALITY_TARGET), "workload", "metric")
    return replace(over("max", judged, *sorted(results.labels - {"metric"})), unit=unit)


def in_decibels(results: Expr) -> tuple[Expr, Expr]:
    """Return the results of workloads whose quality target is in no decibels, and in decibels."""
    target = last(names.QUALITY_TARGET, metric=PSNR)
    others = replace(results, text=matched(results, "unless", target, ["workload"]))
    return others, replace(only(results, target, "workload"), unit=DECIBELS)


@dataclass(frozen=True, slots=True)
class Baseline:
    """The chosen baseline: its series, of which each ratio takes the one of the same work."""

    series: Pick
    among: Pick
    """Those of them that are among the results that are compared, with all labels."""


def times_better(results: Pick, baseline: Baseline, *on: str) -> Ratios:
    """Return how many times better each ranked result is than the baseline's of the same work.

    Results are not divided anew, which takes long in a large fleet: where both were divided by
    the same recorded baseline, the ratio of their recorded ratios is the ratio of the results.
    The squares of both sides' half-widths add up, as in the recorded ratios
    (controller/metrics/rules.py). Raises WrongQuery if `on` would not tell recorded baselines
    apart.
    """
    same = (*on, "work", "metric")
    ratio = _recorded(same)
    base = baseline.series
    result, factor = results(ratio), results(names.RESULT_INTERVAL)
    every = _or_alone(_divided(result, base(ratio), same), baseline.among(names.RESULT))
    of_result, of_base = (
        replace(one, text=f"ln({one.text}) ^ 2") for one in (factor, base(names.RESULT_INTERVAL))
    )
    both = matched(of_result, "+", of_base, same, grouped=())
    off = Expr(f"sqrt({both})", result.labels, COUNT)
    # Few results of a large fleet have an interval: only they are divided again.
    known = _divided(only(result, factor, *sorted(factor.labels)), base(ratio), same).text
    settled = f"({known} and (abs(ln({known})) > {off.text}))"
    return Ratios(every, replace(every, text=settled), off)


def _recorded(same: tuple[str, ...]) -> Metric:
    for metric, shared in _RECORDED:
        if set(shared) <= set(same):
            return metric
    raise WrongQuery(f"no recorded ratio is of one baseline for each {', '.join(same)}")


def _divided(result: Expr, base: Expr, same: tuple[str, ...]) -> Expr:
    return Expr(matched(result, "/", base, same, grouped=()), result.labels, TIMES_BETTER)


def _or_alone(ratios: Expr, own: Expr) -> Expr:
    """Add the baseline's results that have no recorded ratio, as nothing compares with them: 1."""
    alone = ranked(replace(own, text=f"({own.text} ^ 0)"))
    alone.require(ratios.labels)
    every = ", ".join(sorted(ratios.labels))
    return replace(ratios, text=f"({ratios.text} or on ({every}) {alone.text})")


def with_info(ratios: Judged, *labels: str) -> Judged:
    """Return ratios with labels of their devices."""
    return Judged(*(promql.with_info(of, *labels) for of in (ratios.every, ratios.settled)))


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
    all_works = count(ranked(base), *kinds)

    def complete(ratios: Expr) -> str:
        return matched(count(ratios, *by), "==", all_works, kinds, grouped=())

    whole = complete(every)
    mean = f"(exp(avg{by_labels(by)} (ln({every.text}))) and {whole})"
    width = f"(sqrt(sum{by_labels(by)} ({off.text} ^ 2)) / {complete(off)})"
    means = Expr(mean, frozenset(by), TIMES_BETTER)
    return Overall(
        means,
        low=replace(means, text=f"({mean} / exp({width}))"),
        high=replace(means, text=f"({mean} * exp({width}))"),
        works=Expr(whole, frozenset(by), COUNT),
    )
