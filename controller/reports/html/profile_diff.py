"""The differences of two profiles as an HTML page."""

from __future__ import annotations

from collections.abc import Iterator

from controller.contracts.profile_diff import ProfileDiff
from controller.contracts.units import Unit
from controller.profiles.diff_detail import NAMES
from controller.profiles.parts import NO_PHASE
from controller.reports.html.charts import Chart, Point, axis_for, bars_chart
from controller.reports.html.found import FoundTable, found_html
from controller.reports.profile_diff_lines import (
    RATIO_HEADINGS,
    answer_lines,
    change_name,
    change_text,
    other_work_text,
    ratio_cells,
    small_text,
    sorted_changes,
    sum_of,
)
from controller.reports.profile_lines import NO_MODULE

BARS, TOP = 12, 100
"""Changes in the chart; rows of a table."""


def profile_diff_html(found: ProfileDiff, title: str, names: tuple[str, str] | None = None) -> str:
    """Return what two profiles differ in as one self-contained HTML file.

    names: what A and B are.
    """
    description = "Seconds of a step." if found.per_step else "Seconds in all."
    charts, tables = list(_charts(found)), list(_tables(found))
    lines = [
        *(f"{side}: {name}" for side, name in zip(NAMES, names or (), strict=False)),
        *answer_lines(found, BARS),
        *_cuts(found),
    ]
    return found_html(title, description, lines, charts, tables)


def _cuts(found: ProfileDiff) -> Iterator[str]:
    """Yield which tables don't show all rows."""
    counts = (
        ("changes", len(sorted_changes(found).resolved)),
        ("phases", len(found.phases)),
        ("modules", len(found.modules)),
    )
    for name, count in counts:
        if count > TOP:
            yield f"The {TOP} largest of {count} {name} are in the table."


def _tables(found: ProfileDiff) -> Iterator[FoundTable]:
    rows = [(text, *ratio_cells(found, seconds)) for text, seconds in _changes(found)]
    yield FoundTable("Changes", ("change", *RATIO_HEADINGS), rows)
    named = (("Phase", found.phases, NO_PHASE), ("Module", found.modules, NO_MODULE))
    for name, ratios, nameless in named:
        known = ratios if any(ratio.name for ratio in ratios) else ()
        rows = [(of.name or nameless, *ratio_cells(found, of.seconds)) for of in known[:TOP]]
        yield FoundTable(f"{name}s", (name.lower(), *RATIO_HEADINGS), rows)


def _changes(found: ProfileDiff) -> Iterator[tuple[str, tuple[float, float]]]:
    """Yield the rows of changes, with one for all that each say nothing."""
    changes = sorted_changes(found)
    yield from ((change_text(of), of.seconds) for of in changes.resolved[:TOP])
    if more := changes.resolved[TOP:]:
        yield f"{len(more)} more changes", sum_of(more)
    if changes.other_work:
        yield other_work_text(changes.other_work), sum_of(changes.other_work)
    if changes.rest:
        yield small_text(found, changes.rest), sum_of(changes.rest)


def _charts(found: ProfileDiff) -> Iterator[Chart]:
    """Yield the chart of the largest changes, if there are any."""
    shown = [change for change in found.changes if change.resolved][:BARS]
    if not shown:
        return
    rest = sum(change.difference_s for change in found.changes if change not in shown)
    bars = [
        *(Point(change_name(of), of.difference_s) for of in shown),
        Point("all else", rest, tone="reference"),
    ]
    axis = axis_for("B takes more", Unit.SECONDS, [abs(bar.value) for bar in bars])
    caption = "What each change adds to B's time; the last bar is the sum of all other changes."
    yield bars_chart("differences", "Differences", caption, bars, axis)
