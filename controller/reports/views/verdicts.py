"""Verdicts on a ranking in words. Pure."""

from __future__ import annotations

from collections.abc import Sequence

from controller.reports.tables import ratio_text, shown
from controller.reports.views.model import Columns, Row
from controller.stats.bootstrap import Ratio


def best_verdict(rows: Sequence[Row], lead: Ratio | None, columns: Columns) -> str:
    """Return which row is best and by how much, or that no difference is shown.

    lead: how many times as fast as the second row the first one is; None without a second.
    """
    measured = [row for row in rows if row.median is not None]
    if not measured:
        return "Nothing VALID was measured."
    best = measured[0]
    if lead is None:
        return f"Only {best.label} was measured: {_figure(best, columns)}."
    second = measured[1]
    if lead.interval is None:
        return (
            f"{best.label} comes first: {_figure(best, columns)}, {lead.value:.2f}× as fast as the "
            f"next, {second.label}; a single run gives no interval."
        )
    if not lead.shown:
        return _tie(measured, lead, columns)
    return (
        f"{best.label} is best: {_figure(best, columns)}, {ratio_text(lead)} as fast as the next, "
        f"{second.label}{_versus_baseline(best, second)}."
    )


def subject_verdicts(rows: Sequence[Row], columns: Columns, reference: str) -> list[str]:
    """Return how each row of the other subjects compares with the first subject's."""
    said = []
    for row in rows:
        if row.is_reference:
            continue
        if row.median is None:
            said.append(f"{row.label}: nothing VALID was measured.")
        elif row.vs_reference is None:
            said.append(f"{row.label}: {reference} has nothing to compare it with.")
        elif row.vs_reference.interval is None:
            times = f"{row.vs_reference.value:.2f}× as fast as {reference}"
            said.append(f"{row.label}: {times}; a single run gives no interval.")
        elif row.vs_reference.shown:
            times = f"{ratio_text(row.vs_reference)} as fast as {reference}"
            said.append(f"{row.label}: {times} ({_figure(row, columns)}).")
        else:
            said.append(f"{row.label} and {reference}: {ratio_text(row.vs_reference)}.")
    return said


def _tie(measured: Sequence[Row], lead: Ratio, columns: Columns) -> str:
    best, second, *others = measured
    tied = [row for row in others if row.vs_best and row.vs_best.interval and not row.vs_best.shown]
    more = f", nor to {len(tied)} more" if tied else ""
    return (
        f"No difference shown between {best.label} ({_figure(best, columns)}) and the next, "
        f"{second.label} ({lead.value:.2f}×{_interval(lead)}){more}"
        f"{_versus_baseline(best, second)}."
    )


def _versus_baseline(best: Row, second: Row) -> str:
    if best.vs_reference is None or second.is_reference:
        return ""
    return f"; against the baseline: {ratio_text(best.vs_reference)}"


def _figure(row: Row, columns: Columns) -> str:
    metric = columns.metric
    return "" if row.median is None else f"{metric.heading} {shown(row.median, metric.unit)}"


def _interval(ratio: Ratio) -> str:
    return f" [{ratio.interval[0]:.2f}, {ratio.interval[1]:.2f}]" if ratio.interval else ""
