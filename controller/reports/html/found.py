"""A page of what was found in profiles: a summary, charts, and tables."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from controller.reports.html.charts import Chart
from controller.reports.html.page import Page, render


@dataclass(frozen=True, slots=True)
class FoundTable:
    """A table; a row's first cell names it, and others are numbers unless their heading is one of
    `words`."""

    title: str
    headings: Sequence[str]
    rows: Sequence[Sequence[str]]
    words: Sequence[str] = ()

    @property
    def anchor(self) -> str:
        """The id of its section."""
        return self.title.lower()


def found_html(
    title: str,
    description: str,
    lines: Sequence[str],
    charts: Sequence[Chart],
    tables: Sequence[FoundTable],
) -> str:
    """Return one self-contained HTML file; tables without rows are left out."""
    shown = [table for table in tables if table.rows]
    return render(
        Page(
            title=title,
            description=description,
            template="found.html",
            contents=[
                ("summary", "Summary"),
                *((chart.anchor, chart.title) for chart in charts),
                *((table.anchor, table.title) for table in shown),
            ],
            charts=charts,
            context={
                "lines": lines,
                "anchors": [chart.anchor for chart in charts],
                "tables": shown,
            },
        )
    )
