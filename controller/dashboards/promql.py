"""Builders for PromQL over the metrics of names.py, which know each metric's labels.

An `Expr` carries the labels and the unit of its result, so a wrong label, a legend with an unknown
label, or a panel in the wrong unit fails when dashboards are built.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Literal

from controller.dashboards.units import (
    ACCURACY_METRICS,
    COUNT,
    PER_MINUTE,
    PER_SECOND,
    RANKING_METRICS,
    SHARE,
    unit_of,
    unit_of_result,
)
from controller.metrics import names
from controller.metrics.names import Metric, MetricKind

RATE_WINDOW = "$__rate_interval"
"""Grafana's variable: wide enough for the panel's resolution, at least four scrapes."""


class WrongQuery(ValueError):
    """A query for a label its series don't have, or for the wrong kind of metric."""


LATELY = "30m"
"""A window with several runs, which take minutes."""


@dataclass(frozen=True, slots=True)
class Expr:
    """A PromQL expression, the labels of its series, and the Grafana unit of its values."""

    text: str
    labels: frozenset[str]
    unit: str

    def require(self, labels: Iterable[str]) -> None:
        """Raise WrongQuery unless the series have all of these labels."""
        if missing := sorted(set(labels) - self.labels):
            raise WrongQuery(f"no label {', '.join(missing)} in {self.text}")


@dataclass(frozen=True, slots=True)
class Match:
    """A condition on a label; the series keep the label."""

    op: Literal["=", "=~"]
    value: str
    also: tuple[Match, ...] = ()
    """Further conditions on the same label."""


def like(regex: str) -> Match:
    """Match a regular expression; `like("$device")` matches all values of a variable."""
    return Match("=~", regex)


def kept(value: str) -> Match:
    """Match one value and keep the label."""
    return Match("=", value)


def both(first: Wanted, second: Wanted) -> Match:
    """Match what passes two conditions and keep the label."""
    return replace(_match(first), also=(_match(second),))


# Explicit names save Prometheus from reading 40,000 of the 50,000 results of 1,000 devices.
RANKING = like("|".join(RANKING_METRICS))
ACCURACY = like("|".join(ACCURACY_METRICS))
PSNR = kept("PSNR")

Wanted = str | Match
"""A condition on a label; a plain string is one value, and the label is dropped from the series."""


def last(metric: Metric, /, **where: Wanted) -> Expr:
    """Return the newest value of a gauge, without the labels of its exporter.

    Recorded ones have no such labels: they are taken as they are, with all of their own.
    """
    if metric.is_recorded:
        series = selector(metric.name, metric, where)
        return Expr(series, frozenset(metric.labels), _unit(metric, where))
    return highest(metric, *_varying(metric, where), **where)


def highest(metric: Metric, /, *by: str, **where: Wanted) -> Expr:
    """Return the highest newest value of a gauge in each group."""
    _require_kind(metric, MetricKind.GAUGE)
    series = selector(metric.name, metric, where)
    return _aggregated("max", series, frozenset(metric.labels), by, _unit(metric, where))


def being(metric: Metric, value: int, /, **where: Wanted) -> Expr:
    """Return only the series of a gauge with this value."""
    _require_kind(metric, MetricKind.GAUGE)
    series = f"{selector(metric.name, metric, where)} == {value}"
    kept_labels = _varying(metric, where)
    return _aggregated("max", series, frozenset(metric.labels), kept_labels, _unit(metric, where))


def age(metric: Metric, /, **where: Wanted) -> Expr:
    """Return the seconds since the time in a gauge."""
    said = last(metric, **where)
    return replace(said, text=f"(time() - {said.text})")


def per_minute(metric: Metric, /, *by: str, **where: Wanted) -> Expr:
    """Return the increase of a counter a minute."""
    rate = per_second(metric, RATE_WINDOW, *by, **where)
    return replace(rate, text=f"(60 * {rate.text})", unit=PER_MINUTE)


def per_second(metric: Metric, window: str, /, *by: str, **where: Wanted) -> Expr:
    """Return the rate of a counter over a window."""
    _require_kind(metric, MetricKind.COUNTER)
    rate = f"rate({selector(metric.name, metric, where)}[{window}])"
    return _aggregated("sum", rate, frozenset(metric.labels), by, PER_SECOND)


def increase(metric: Metric, window: str, /, *by: str, **where: Wanted) -> Expr:
    """Return the increase of a counter over a window."""
    _require_kind(metric, MetricKind.COUNTER)
    grown = f"increase({selector(metric.name, metric, where)}[{window}])"
    return _aggregated("sum", grown, frozenset(metric.labels), by, COUNT)


def quantile(metric: Metric, q: float, window: str, /, *by: str, **where: Wanted) -> Expr:
    """Return a quantile of a histogram over a window."""
    counted = buckets(metric, window, *by, **where)
    return Expr(
        f"histogram_quantile({q:g}, {counted.text})",
        counted.labels - {"le"},
        _unit(metric, where),
    )


def buckets(metric: Metric, window: str, /, *by: str, **where: Wanted) -> Expr:
    """Return the observations in each bucket of a histogram over a window."""
    _require_kind(metric, MetricKind.HISTOGRAM)
    grown = f"increase({selector(f'{metric.name}_bucket', metric, where)}[{window}])"
    return _aggregated("sum", grown, frozenset({*metric.labels, "le"}), ("le", *by), COUNT)


def over(op: Literal["sum", "max"], expr: Expr, *by: str) -> Expr:
    """Return an aggregate of an expression, in the same unit."""
    return _aggregated(op, expr.text, expr.labels, by, expr.unit)


def count(expr: Expr, *by: str) -> Expr:
    """Return the number of series."""
    return _aggregated("count", expr.text, expr.labels, by, COUNT)


def median(expr: Expr, *by: str) -> Expr:
    """Return the median of an expression's series."""
    expr.require(by)
    return Expr(f"quantile{by_labels(by)} (0.5, {expr.text})", frozenset(by), expr.unit)


def extreme(which: Literal["topk", "bottomk"], number: int, expr: Expr, *by: str) -> Expr:
    """Return the series with the highest or lowest values in each group."""
    expr.require(by)
    return replace(expr, text=f"{which}{by_labels(by)} ({number}, {expr.text})")


def filtered(expr: Expr, op: Literal[">", ">="], number: float) -> Expr:
    """Return the series whose value passes the comparison."""
    return replace(expr, text=f"({expr.text} {op} {number:g})")


def or_zero(expr: Expr) -> Expr:
    """Return 0 where there is no value; for expressions without labels."""
    if expr.labels:
        raise WrongQuery(f"0 has no labels, {expr.text} has {sorted(expr.labels)}")
    return replace(expr, text=f"({expr.text} or vector(0))")


def plus(left: Expr, right: Expr) -> Expr:
    """Return the sum of two expressions with the same labels."""
    right.require(left.labels)
    return replace(left, text=f"({left.text} + {right.text})")


def quotient(left: Expr, right: Expr, unit: str) -> Expr:
    """Return the quotient of two expressions; `unit` is its unit."""
    right.require(left.labels)
    return replace(left, text=f"({left.text} / {right.text})", unit=unit)


def share(part: Expr, whole: Expr) -> Expr:
    """Return part / whole, from 0 to 1; both have the same labels."""
    whole.require(part.labels)
    return replace(part, text=f"({part.text} / {whole.text})", unit=SHARE)


def only(expr: Expr, having: Expr, *on: str) -> Expr:
    """Return the series for which another expression has a series with the same labels."""
    return replace(expr, text=matched(expr, "and", having, on))


def without(expr: Expr, having: Expr, *on: str) -> Expr:
    """Return the series for which another expression has no series with the same labels."""
    return replace(expr, text=matched(expr, "unless", having, on))


def with_info(expr: Expr, /, *labels: str, **where: Wanted) -> Expr:
    """Return the series with labels of their devices; conditions exclude other devices."""
    info = names.DEVICE_INFO
    Expr(info.name, frozenset(info.labels), COUNT).require(labels)
    kept_labels = ("device", *labels)
    about = f"max{by_labels(kept_labels)} ({selector(info.name, info, where)})"
    device = Expr(about, frozenset(kept_labels), COUNT)
    if not labels:  # `and` is much faster than a product that creates labels
        return only(expr, device, "device")
    text = matched(expr, "*", device, ("device",), grouped=labels)
    return replace(expr, text=text, labels=expr.labels | frozenset(labels))


def marked(expr: Expr, /, *labels: str) -> Expr:
    """Return series with their device's name, and a label `virtual` to stand behind it.

    It is ` (virtual)` or empty. labels: others of the device.
    """
    said = with_info(expr, "name", "virtual", *labels)
    blank = f'label_replace({said.text}, "virtual", "", "virtual", "false")'
    return replace(said, text=f'label_replace({blank}, "virtual", " (virtual)", "virtual", "true")')


def joined(expr: Expr, into: str, *labels: str) -> Expr:
    """Return the series with a new label, joined from others."""
    expr.require(labels)
    sources = ", ".join(json.dumps(label) for label in labels)
    text = f'label_join({expr.text}, "{into}", " ", {sources})'
    return replace(expr, text=text, labels=expr.labels | {into})


def matched(
    left: Expr, op: str, right: Expr, on: Iterable[str], grouped: Iterable[str] | None = None
) -> str:
    """Return the text of a binary operation.

    grouped: labels that many series take from their one match.
    """
    left.require(on)
    right.require(on)
    right.require(grouped or ())
    group = "" if grouped is None else f" group_left ({', '.join(grouped)})"
    return f"({left.text} {op} on ({', '.join(on)}){group} {right.text})"


def _aggregated(op: str, text: str, labels: frozenset[str], by: Iterable[str], unit: str) -> Expr:
    Expr(text, labels, unit).require(by)
    return Expr(f"{op}{by_labels(by)} ({text})", frozenset(by), unit)


def by_labels(labels: Iterable[str]) -> str:
    """Return the clause of an aggregation that keeps these labels."""
    listed = ", ".join(labels)
    return f" by ({listed})" if listed else ""


def selector(series: str, metric: Metric, where: dict[str, Wanted]) -> str:
    """Return the selector for a metric's series; raises WrongQuery for an unknown label."""
    if unknown := sorted(set(where) - set(metric.labels)):
        raise WrongQuery(f"{metric.name} has no label {', '.join(unknown)}")
    matchers = [
        f"{label}{match.op}{json.dumps(match.value)}"
        for label, wanted in where.items()
        for one in (_match(wanted),)
        for match in (one, *one.also)
    ]
    return f"{series}{{{', '.join(matchers)}}}" if matchers else series


def _match(wanted: Wanted) -> Match:
    return wanted if isinstance(wanted, Match) else kept(wanted)


def _varying(metric: Metric, where: dict[str, Wanted]) -> tuple[str, ...]:
    return tuple(label for label in metric.labels if not isinstance(where.get(label), str))


def _require_kind(metric: Metric, kind: MetricKind) -> None:
    if metric.kind is not kind:
        raise WrongQuery(f"{metric.name} is a {metric.kind}, not a {kind}")


def _unit(metric: Metric, where: dict[str, Wanted]) -> str:
    said = where.get("metric")
    one = said.value if isinstance(said, Match) and said.op == "=" else said
    if metric is names.RESULT and isinstance(one, str):
        return unit_of_result(one)
    return unit_of(metric)
