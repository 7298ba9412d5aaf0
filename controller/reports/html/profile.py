"""A profile as an HTML page."""

from __future__ import annotations

from collections.abc import Iterator

import plotly.graph_objects as go

from controller.contracts.peaks import Peaks
from controller.contracts.profile import ProfileSummary
from controller.profiles.model import PrimitiveRow, Profile
from controller.reports.html.charts import Chart, theme_layout
from controller.reports.html.page import Page, render
from controller.reports.html.text import escape
from controller.reports.profile_lines import per, tables_of
from controller.reports.profile_origin import origin_facts
from controller.reports.profile_tables import NUMBERS, duration, numbers_of, summary_lines

HEIGHT = 420
TOP = 25
"""Rows of a table."""


def profile_html(profile: Profile, title: str) -> str:
    """Return a profile as one self-contained HTML file."""
    tables = tables_of(profile)
    anchors = [found.name for found in tables]
    charts = list(_charts(profile))
    return render(
        Page(
            title=title,
            description=_description(profile.summary),
            template="profile.html",
            contents=[
                ("summary", "Summary"),
                *((chart.anchor, chart.title) for chart in charts),
                *((anchor, anchor.capitalize()) for anchor in anchors),
                ("conditions", "Conditions"),
            ],
            charts=charts,
            context={
                "summary": summary_lines(profile.summary),
                "facts": origin_facts(profile.summary),
                "anchors": [chart.anchor for chart in charts],
                "tables": list(zip(anchors, tables, strict=True)),
                "numbers": NUMBERS,
                "numbers_of": numbers_of,
                "top": TOP,
            },
        )
    )


def _description(summary: ProfileSummary) -> str:
    if summary.steps is None:
        told = "Steps are not told apart: times are those in all."
    else:
        told = f"{summary.steps} profiled steps; times are those of one."
    return f"{summary.validity}. {told}" if summary.reasons else told


def _charts(profile: Profile) -> Iterator[Chart]:
    if profile.summary.top:
        yield _donut(profile)
    if profile.summary.peaks:
        yield _roofline(profile, profile.summary.peaks)


def _donut(profile: Profile) -> Chart:
    top = profile.summary.top
    pie = go.Pie(
        labels=[escape(f"{one.primitive} {one.direction}".strip()) for one in top],
        values=[one.seconds * 1e3 for one in top],
        hole=0.5,
        sort=False,
        textinfo="percent",
        textposition="inside",
        insidetextorientation="horizontal",
        hovertemplate=(
            f"%{{label}}<br>%{{value:.4g}} ms {per(profile.summary)}<br>%{{percent}}<extra></extra>"
        ),
        marker={"line": {"color": "var(--surface)", "width": 1}},
    )
    layout = theme_layout()
    layout.update(
        height=HEIGHT,
        margin={"l": 16, "r": 16, "t": 16, "b": 16},
        showlegend=True,
        legend={"orientation": "h", "y": -0.05},
        uniformtext={"minsize": 11, "mode": "hide"},
    )
    caption = "Time in oneDNN by primitive and direction."
    figure = go.Figure([pie], layout).to_plotly_json()
    return Chart("shares", "Primitives", caption, HEIGHT, figure)


def _roofline(profile: Profile, peaks: Peaks) -> Chart:
    rows = [r for r in profile.primitives if r.flops and r.bytes and r.seconds]
    found = {row.body: row for row in rows}.values()
    points = go.Scatter(
        x=[_intensity(row) for row in found],
        y=[_rate(row) * 1e-9 for row in found],
        mode="markers",
        marker={"size": 9, "color": "var(--accent)", "opacity": 0.7},
        hovertext=[_hover(row, profile.summary) for row in found],
        hoverinfo="text",
    )
    roofs = [_roof(name, peak, peaks.copy_bytes) for name, peak in peaks.gemm_flops.items()]
    layout = theme_layout()
    layout.update(
        height=HEIGHT,
        margin={"l": 64, "r": 16, "t": 8, "b": 52},
        xaxis={"type": "log", "title": {"text": "FLOPs a byte"}},
        yaxis={"type": "log", "title": {"text": "GFLOP/s"}},
    )
    figure = go.Figure([*roofs, points], layout).to_plotly_json()
    caption = "Primitives under what this machine was measured to do: matrix products and copies."
    return Chart("roofline", "Roofline", caption, HEIGHT, figure)


def _roof(name: str, peak: float, moved: float) -> go.Scatter:
    ridge = peak / moved
    left, right = 0.1, max(1e4, ridge * 10)
    return go.Scatter(
        x=[left, ridge, right],
        y=[left * moved * 1e-9, peak * 1e-9, peak * 1e-9],
        mode="lines+text",
        text=["", "", escape(f"{name} {peak * 1e-9:.0f} GFLOP/s")],
        textposition="top left",
        line={"color": "var(--muted)", "width": 1.5},
        hoverinfo="skip",
    )


def _intensity(row: PrimitiveRow) -> float:
    return (row.flops or 0.0) / (row.bytes or 1.0)


def _rate(row: PrimitiveRow) -> float:
    return (row.flops or 0.0) * row.calls / row.seconds


def _hover(row: PrimitiveRow, summary: ProfileSummary) -> str:
    lines = (
        f"{row.primitive} {row.direction} {row.data_types}",
        row.implementation,
        row.problem,
        f"{_rate(row) * 1e-9:.4g} GFLOP/s, {duration(row.seconds)} {per(summary)}",
        row.place.module,
    )
    return "<br>".join(escape(line) for line in lines if line)
