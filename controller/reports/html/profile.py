"""A profile as an HTML page."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from controller.contracts.profile import ProfileSummary
from controller.profiles.model import Profile
from controller.reports import counter_lines
from controller.reports.html.charts import LONGEST_LABEL
from controller.reports.html.page import Page, render
from controller.reports.html.profile_charts import charts_of
from controller.reports.html.roofline import ANCHOR as ROOFLINE
from controller.reports.html.roofline import NUMBERS as ROOFLINE_NUMBERS
from controller.reports.html.roofline import WORDS, roofline_points
from controller.reports.html.text import shortened
from controller.reports.html.timeline import timeline_of
from controller.reports.profile_lines import Lines, per, tables_of, untold_lines
from controller.reports.profile_origin import origin_facts
from controller.reports.profile_tables import NUMBERS, numbers_of, summary_lines
from controller.reports.topdown_lines import topdown_rows

TOP, FOUND = 25, 500
"""Rows of a table that are shown; those that a search finds."""


@dataclass(frozen=True, slots=True)
class TableText:
    """A text of a table, as long as in a chart at most."""

    whole: str

    @property
    def shown(self) -> str:
        """The text, or its beginning."""
        return shortened(self.whole, LONGEST_LABEL)


@dataclass(frozen=True, slots=True)
class SearchedTable:
    """A table of which the largest rows are shown, and more can be found."""

    title: str
    words: Sequence[str]
    """Headings of texts; the first names a row."""
    numbers: Sequence[str]
    rows: Sequence[tuple[Sequence[TableText], Sequence[str]]]
    """Texts and numbers, the largest rows first."""
    count: int
    """Of all rows."""


def profile_html(profile: Profile, title: str) -> str:
    """Return a profile as one self-contained HTML file."""
    return render(profile_page(profile, title))


def profile_page(profile: Profile, title: str) -> Page:
    """Return the parts of a profile's page, for a file or for a server's own layout."""
    tables = tables_of(profile)
    anchors = [found.name for found in tables]
    timeline = timeline_of(profile)
    charts, counters = list(charts_of(profile)), profile.summary.counters
    has_roofline = any(chart.anchor == ROOFLINE for chart in charts)
    return Page(
        title=title,
        description=_description(profile.summary),
        template="profile.html",
        contents=[
            ("summary", "Summary"),
            *((chart.anchor, chart.title) for chart in charts),
            *([("timeline", "Timeline")] if timeline else []),
            *((anchor, anchor.capitalize()) for anchor in anchors),
            ("topdown", "Top-down"),
            *([("counts", "Counts")] if counters else []),
            ("conditions", "Conditions"),
        ],
        charts=charts,
        context={
            "summary": summary_lines(profile.summary) + untold_lines(profile),
            "roofline": _roofline_table(profile) if has_roofline else None,
            "timeline": timeline,
            "facts": origin_facts(profile.summary),
            "topdown": [*topdown_rows(told)] if (told := profile.summary.topdown) else [],
            "topdown_title": f"Shares of all slots: {told.source}" if told else "",
            "no_topdown": counter_lines.why_no_topdown(profile.summary),
            "phase_headings": counter_lines.phase_share_headings(),
            "phase_shares": list(counter_lines.phase_shares(counters)),
            "counts": list(counter_lines.counts_rows(counters)) if counters else [],
            "counts_title": counter_lines.counts_title(counters) if counters else "",
            "counts_headings": counter_lines.NUMBERS,
            "count_notes": counter_lines.count_notes(counters),
            "anchors": [chart.anchor for chart in charts],
            "tables": [(found.name, _table(found)) for found in tables],
            "top": TOP,
            "found": FOUND,
        },
        scripts=["find.js", *(["timeline.js"] if timeline else [])],
    )


def _table(found: Lines) -> SearchedTable:
    rows = [(_texts(line.key), numbers_of(line)) for line in found.lines[:FOUND]]
    return SearchedTable(found.title, found.headings, NUMBERS, rows, len(found.lines))


def _texts(texts: Iterable[str]) -> list[TableText]:
    return [TableText(text) for text in texts]


def _roofline_table(profile: Profile) -> SearchedTable:
    points = roofline_points(profile)
    rows = [(_texts(point.words), point.numbers) for point in points[:FOUND]]
    title = f"points of the roofline: time {per(profile.summary)}"
    return SearchedTable(title, WORDS, ROOFLINE_NUMBERS, rows, len(points))


def _description(summary: ProfileSummary) -> str:
    if summary.steps is None:
        told = "Steps are not told apart: times are those in all."
    else:
        told = f"{summary.steps} profiled steps; times are those of one."
    return f"{summary.validity}. {told}" if summary.reasons else told
