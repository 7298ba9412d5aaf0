"""Verdicts on a ranking in words. Pure."""

from __future__ import annotations

from collections.abc import Sequence

from controller.reports.figures import shown
from controller.reports.groups import NoRatio
from controller.reports.tables import ratio_text
from controller.reports.verdict import ComparisonOutcome, bounds, outcome_of, precision, tie, times
from controller.reports.views.model import Columns, Row
from controller.stats.medians import Ratio

LABELS_SAID = 5
NOTHING_VALID = "Nothing VALID was measured."


def best_verdict(rows: Sequence[Row], lead: Ratio | None, columns: Columns) -> str:
    """Return which row is best and by how much, or that it is not shown to be: it is if each other
    row is shown to be slower.

    lead: how many times as fast as the second row the first one is; None without a second, or where
    one of both values is not positive.
    """
    measured = [row for row in rows if row.rank is not None]
    if not measured:
        return NOTHING_VALID
    best = measured[0]
    if len(measured) == 1:
        return f"Only {best.label} was measured: {_figure(best, columns)}."
    second = measured[1]
    if lead is None:
        return (
            f"{best.label} comes first: {_figure(best, columns)}; the next, {second.label}, has "
            f"{_figure(second, columns)}: no ratio, since {NoRatio.NOT_POSITIVE}."
        )
    if lead.interval is None:
        return (
            f"{best.label} comes first: {_figure(best, columns)}, {times(lead)} as fast as the "
            f"next, {second.label}; a single run gives no interval."
        )
    if not lead.shown:
        return _tie(measured, lead, columns)
    more = _not_told_apart(measured)
    is_first, more = ("comes first", f"{more} from the first") if more else ("is best", "")
    return (
        f"{best.label} {is_first}: {_figure(best, columns)}, {ratio_text(lead)} as fast as the "
        f"next, {second.label}{more}{_versus_baseline(best, second)}."
    )


def disturbed_verdict(rows: Sequence[Row]) -> str:
    """Return which rows have no rank because all they measured was disturbed; empty for none."""
    labels = [row.label for row in rows if row.rank is None and row.disturbed]
    if not labels:
        return ""
    more = len(labels) - LABELS_SAID
    others = f" and {more} more" if more > 0 else ""
    return f"DISTURBED, so without a rank: {', '.join(labels[:LABELS_SAID])}{others}."


def subject_verdicts(rows: Sequence[Row], columns: Columns, reference: str) -> list[str]:
    """Return how each row of the other subjects compares with the first subject's."""
    said = []
    for row in rows:
        if row.is_reference:
            continue
        if row.rank is None:
            measured = "all was DISTURBED" if row.disturbed else "nothing VALID was measured"
            said.append(f"{row.label}: {measured}.")
        elif row.vs_reference is None:
            said.append(f"{row.label}: {reference} has nothing to compare it with.")
        elif row.vs_reference.interval is None:
            found = f"{times(row.vs_reference)} as fast as {reference}"
            said.append(f"{row.label}: {found}; a single run gives no interval.")
        elif row.vs_reference.shown:
            found = f"{ratio_text(row.vs_reference)} as fast as {reference}"
            said.append(f"{row.label}: {found} ({_figure(row, columns)}).")
        else:
            said.append(f"{row.label} and {reference}: {_undecided(row.vs_reference)}.")
    return said


def _tie(measured: Sequence[Row], lead: Ratio, columns: Columns) -> str:
    best, second, *_ = measured
    more = _not_told_apart(measured)
    more = f"{more} from the first either" if more else ""
    return (
        f"{best.label} ({_figure(best, columns)}) and the next, {second.label}: {_undecided(lead)}"
        f"{more}{_versus_baseline(best, second)}."
    )


def _not_told_apart(measured: Sequence[Row]) -> str:
    """Return how many rows after the second are not shown to differ from the first; empty for
    none."""
    alike = [row for row in measured[2:] if not (row.vs_best and row.vs_best.shown)]
    return f"; {len(alike)} more can't be told" if alike else ""


def _undecided(ratio: Ratio) -> str:
    """Return what is said of two rows neither of which is shown to be the faster one."""
    found = f"{tie(ratio)}, {times(ratio)} {bounds(ratio)}"
    unresolved = outcome_of(ratio) is ComparisonOutcome.NOT_RESOLVED
    return f"{found}, {precision(ratio)}" if unresolved else found


def _versus_baseline(best: Row, second: Row) -> str:
    if best.vs_reference is None or second.is_reference:
        return ""
    where = f" on {best.other_device.shown}" if best.other_device else ""
    return f"; against the baseline{where}: {ratio_text(best.vs_reference)}"


def _figure(row: Row, columns: Columns) -> str:
    metric = columns.metric
    return "" if row.median is None else f"{metric.heading} {shown(row.median, metric.unit)}"
