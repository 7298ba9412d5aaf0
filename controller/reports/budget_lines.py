"""A step's budget as tables and sentences. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from rich.table import Table

from controller.contracts.budget import Budget, BudgetLine
from controller.contracts.profile import ProfileSummary
from controller.reports.profile_lines import per
from controller.reports.profile_tables import duration

COLUMNS = ("now", "at peak", "above roof", "no roof known", "waiting", "in no op")


def budget_tables(found: Budget, summary: ProfileSummary, top: int) -> Iterator[Table]:
    """Yield the table of phases, with the step in its last row, and that of operations."""
    phases = [((line.phase,), line) for line in found.phases]
    rows = [*phases, (("step",), found.step)]
    yield _table(f"budget by phase, {per(summary)}", ("phase",), rows)
    operations = [((line.phase, line.operation), line) for line in found.operations]
    table = _table("most time not at the peaks", ("phase", "operation"), operations[:top])
    if rest := found.operations[top:]:
        lost_s = sum(line.between_s for line in rest)
        table.caption = f"and {len(rest)} more with {duration(lost_s)} not at the peaks"
    yield table


def budget_lines(found: Budget, summary: ProfileSummary) -> Iterator[str]:
    """Yield what the budget comes to, in sentences."""
    for reason in summary.reasons:
        yield f"{summary.validity}: {reason}"
    if found.faster_at_peaks is None:
        yield "no roof is known: no peaks were measured, or neither FLOPs nor bytes are known"
        return
    step = found.step
    yield (
        f"at the measured peaks: {duration(step.at_peak_s)} of {duration(step.seconds)}, "
        f"{found.faster_at_peaks:.2f} times as fast at this cell's threads and data types, if all "
        "else took no time"
    )
    if found.faster_without_headroom is not None:
        yield (
            f"without the {duration(step.above_roof_s)} above known roofs alone: "
            f"{found.faster_without_headroom:.2f} times as fast"
        )


def _table(
    title: str, headings: Iterable[str], rows: Iterable[tuple[tuple[str, ...], BudgetLine]]
) -> Table:
    table = Table(title=title, title_justify="left")
    for heading in headings:
        table.add_column(heading, overflow="fold")
    for heading in COLUMNS:
        table.add_column(heading, justify="right", no_wrap=True)
    for key, line in rows:
        table.add_row(*key, *(duration(value) if value else "–" for value in _values(line)))
    return table


def _values(line: BudgetLine) -> tuple[float, ...]:
    """Return a line's seconds under COLUMNS."""
    between = (line.above_roof_s, line.no_roof_s, line.waiting_s, line.in_no_op_s)
    return (line.seconds, line.at_peak_s, *between)
