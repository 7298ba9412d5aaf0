"""The differences of two profiles as an HTML page."""

from __future__ import annotations

from collections.abc import Iterator

from controller.contracts.profile_diff import ProfileDiff
from controller.contracts.units import Unit
from controller.profiles.parts import NO_PHASE
from controller.reports.html.charts import Chart, Point, axis_for, bars_chart
from controller.reports.html.found import FoundTable, found_html
from controller.reports.profile_diff_lines import (
    RATIO_HEADINGS,
    answer_lines,
    change_text,
    ratio_cells,
)
from controller.reports.profile_lines import NO_MODULE

BARS, TOP = 12, 100
"""Changes in the chart; rows of a table."""


def profile_diff_html(found: ProfileDiff, title: str) -> str:
    """Return what two profiles differ in as one self-contained HTML file."""
    description = "Seconds of a step." if found.per_step else "Seconds in all."
    charts, tables = list(_charts(found)), list(_tables(found))
    return found_html(title, description, answer_lines(found, BARS), charts, tables)


def _tables(found: ProfileDiff) -> Iterator[FoundTable]:
    changes = [(change_text(of), *ratio_cells(found, of.seconds)) for of in found.changes[:TOP]]
    yield FoundTable("Changes", ("change", *RATIO_HEADINGS), changes)
    named = (("Phase", found.phases, NO_PHASE), ("Module", found.modules, NO_MODULE))
    for name, ratios, nameless in named:
        known = ratios if any(ratio.name for ratio in ratios) else ()
        rows = [(of.name or nameless, *ratio_cells(found, of.seconds)) for of in known[:TOP]]
        yield FoundTable(f"{name}s", (name.lower(), *RATIO_HEADINGS), rows)


def _charts(found: ProfileDiff) -> Iterator[Chart]:
    """Yield the chart of the largest changes, if there are any."""
    shown = [change for change in found.changes if change.resolved][:BARS]
    if not shown:
        return
    rest = sum(change.difference_s for change in found.changes if change not in shown)
    bars = [
        *(Point(f"{of.op}: {of.kind}", of.difference_s) for of in shown),
        Point("all else", rest, tone="reference"),
    ]
    axis = axis_for("B takes more", Unit.SECONDS, [abs(bar.value) for bar in bars])
    caption = "What each change adds to B's time; the last bar is the sum of all other changes."
    yield bars_chart("differences", "Differences", caption, bars, axis)
