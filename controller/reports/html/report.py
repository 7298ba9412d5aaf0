"""A sweep's or a comparison's report as HTML."""

from __future__ import annotations

from collections.abc import Iterator

from controller.reports.figures import shown
from controller.reports.html.charts import (
    Box,
    Chart,
    Point,
    Tone,
    axis_for,
    boxes_chart,
    points_chart,
)
from controller.reports.html.figures import FIGURES
from controller.reports.html.page import Page, render
from controller.reports.html.pairs_chart import pairs_chart
from controller.reports.verdict import PRECISION, percent
from controller.reports.views.model import Ranking, ReportView, Row
from controller.reports.views.notes import row_notes


def report_html(view: ReportView) -> str:
    """Return a report as one self-contained HTML file."""
    return render(report_page(view))


def report_page(view: ReportView) -> Page:
    """Return the parts of a report's page, for a file or for a server's own layout."""
    charts = {ranking.anchor: list(_charts(ranking)) for ranking in view.rankings}
    charts["compared"] = [pairs_chart(compared) for compared in view.compared]
    return Page(
        title=view.title,
        description=view.description,
        template="report.html",
        contents=_contents(view),
        charts=[chart for of_ranking in charts.values() for chart in of_ranking],
        context={
            "view": view,
            "anchors": {name: [chart.anchor for chart in of] for name, of in charts.items()},
            **FIGURES,
            "row_notes": row_notes,
            "needed": percent(PRECISION),
        },
    )


def _contents(view: ReportView) -> list[tuple[str, str]]:
    listed = [("verdict", "Verdict")]
    listed += [("scoreboard", "Devices at a glance")] if view.scoreboards else []
    listed += [(ranking.anchor, ranking.name) for ranking in view.rankings]
    listed += [("compared", "Compared in turns")] if view.compared else []
    listed += [("delegates", "Delegates: what works on which device")] if view.delegates else []
    return [
        *listed,
        ("validity", "Validity"),
        ("failures", "Failures"),
        ("conditions", "Conditions"),
    ]


def _charts(ranking: Ranking) -> Iterator[Chart]:
    """Yield the charts that add to their table: not those of a single point, or of equal points."""
    if sum(row.rank is not None for row in ranking.rows) > 1:
        yield _ranking_chart(ranking)
    if any(row.rank and row.distribution for row in ranking.rows):
        yield _distribution_chart(ranking)
    quality = ranking.columns.quality
    if quality and len({shown(v, quality.metric.unit) for v in _qualities(ranking)}) > 1:
        yield _quality_chart(ranking)


def _qualities(ranking: Ranking) -> list[float]:
    return [row.quality for row in ranking.rows if row.quality is not None]


def _ranking_chart(ranking: Ranking) -> Chart:
    metric = ranking.columns.metric
    points = [
        Point(row.label, row.median, row.interval, _tone(row))
        for row in ranking.rows
        if row.median is not None and row.rank is not None
    ]
    better = "less" if metric.unit.lower_is_better else "more"
    return points_chart(
        f"{ranking.anchor}-metric",
        metric.heading.capitalize(),
        f"Medians, best first, with 95 % intervals; {better} is better{_marks(ranking)}.",
        points,
        axis_for(metric.heading, metric.unit, [point.value for point in points]),
    )


def _marks(ranking: Ranking) -> str:
    shown_too = any(row.is_reference and row.rank is not None for row in ranking.rows)
    return f"; a diamond marks {ranking.reference}" if shown_too else ""


def _distribution_chart(ranking: Ranking) -> Chart:
    metric = ranking.columns.distribution
    assert metric is not None
    found = [(row, row.distribution) for row in ranking.rows if row.rank and row.distribution]
    boxes = [Box(row.label, d.quantiles, _tone(row)) for row, d in found]
    samples = sum(distribution.samples for _, distribution in found)
    return boxes_chart(
        f"{ranking.anchor}-distribution",
        f"{metric.heading.capitalize()}: distribution",
        f"Median, quartiles and 1st to 99th percentile of {samples:,} raw samples.",
        boxes,
        axis_for(metric.heading, metric.unit, [box.quantiles[2] for box in boxes]),
    )


def _quality_chart(ranking: Ranking) -> Chart:
    quality = ranking.columns.quality
    assert quality is not None
    points = [
        Point(row.label, row.quality, None, _tone(row))
        for row in ranking.rows
        if row.quality is not None
    ]
    unit = quality.metric.unit
    better = "less" if unit.lower_is_better else "more"
    target = (
        ""
        if quality.target is None
        else f"; the dashed line is the target {shown(quality.target, unit)}"
    )
    return points_chart(
        f"{ranking.anchor}-quality",
        f"Quality: {quality.metric.heading}",
        f"In the same order; {better} is better{target}.",
        points,
        axis_for(quality.metric.heading, unit, [point.value for point in points]),
        quality.target,
    )


def _tone(row: Row) -> Tone:
    if row.is_reference:
        return "reference"
    return "best" if row.rank == 1 else "plain"
