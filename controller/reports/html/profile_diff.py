"""The differences of two profiles as an HTML page."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from controller.contracts.profile_diff import ProfileDiff, Ratio
from controller.contracts.units import Unit
from controller.profiles.parts import NO_PHASE
from controller.reports.html.charts import Chart, Point, axis_for, bars_chart
from controller.reports.html.page import Page, render
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
    charts = list(_charts(found))
    tables = [table for table in _tables(found) if table[2]]
    return render(
        Page(
            title=title,
            description="Seconds of a step." if found.per_step else "Seconds in all.",
            template="profile_diff.html",
            contents=[
                ("summary", "Summary"),
                *((chart.anchor, chart.title) for chart in charts),
                *((heading.lower(), heading) for heading, _, _ in tables),
            ],
            charts=charts,
            context={
                "lines": answer_lines(found, BARS),
                "anchors": [chart.anchor for chart in charts],
                "tables": tables,
            },
        )
    )


def _tables(found: ProfileDiff) -> Iterator[tuple[str, Sequence[str], list[tuple[str, ...]]]]:
    """Yield title, headings and rows of each table; the last cells of a row are numbers."""
    changes: list[tuple[str, ...]] = [
        (change_text(of), *ratio_cells(of.seconds)) for of in found.changes[:TOP]
    ]
    yield "Changes", ("change", *RATIO_HEADINGS), changes
    named = (("Phase", found.phases, NO_PHASE), ("Module", found.modules, NO_MODULE))
    for name, ratios, nameless in named:
        yield f"{name}s", (name.lower(), *RATIO_HEADINGS), _rows(ratios, nameless)


def _rows(ratios: Sequence[Ratio], nameless: str) -> list[tuple[str, ...]]:
    if not any(ratio.name for ratio in ratios):
        return []
    return [(ratio.name or nameless, *ratio_cells(ratio.seconds)) for ratio in ratios[:TOP]]


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
    caption = "What each change adds to B's time; all bars come to the whole difference."
    yield bars_chart("differences", "Differences", caption, bars, axis)
