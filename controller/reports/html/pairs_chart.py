"""The chart of a paired comparison: the ratio of each pair, as they came."""

from __future__ import annotations

from collections.abc import Sequence

from controller.reports.html.charts import Chart, Trace, figure_of, layout_of, trace_of
from controller.reports.verdict import bounds, times
from controller.reports.views.model import Compared, PairPoint

HEIGHT = 320
LOG_FROM = 20.0
"""Ratios that differ by more than this factor are drawn on a logarithmic axis."""


def pairs_chart(compared: Compared) -> Chart:
    """Draw the ratio of each pair over time, with the interval, the ratio of all, and 1."""
    points, ratio = compared.points, compared.ratio
    across, heading = _places(compared)
    ends = [*(point.ratio for point in points), 1.0, *(ratio.interval or ())]
    layout = layout_of(
        height=HEIGHT,
        margin={"l": 64, "r": 16, "t": 8, "b": 52},
        xaxis={"title": {"text": heading, "standoff": 8}, "rangemode": "tozero"},
        yaxis={
            "title": {"text": "times as fast as A"},
            "type": "log" if max(ends) / min(ends) > LOG_FROM else "linear",
            "zeroline": False,
        },
        shapes=[*_band(compared), _line(ratio.value, "solid"), _line(1.0, "dash")],
    )
    # A line that no point is beside would lie outside of the chart.
    kept_in_sight = trace_of(
        "scatter",
        x=[across[0]] * len(ends),
        y=ends,
        mode="markers",
        marker={"opacity": 0},
        hoverinfo="skip",
    )
    figure = figure_of([kept_in_sight, _trace(points, across)], layout)
    title = f"{compared.task}: {compared.b} against {compared.a}"
    return Chart(f"{compared.anchor}-pairs", title, _caption(compared), HEIGHT, figure)


def _places(compared: Compared) -> tuple[list[float], str]:
    """Return where each pair stands along the chart, and what that is."""
    times_s = [point.ended_s for point in compared.points if point.ended_s is not None]
    if compared.sessions == 1 and len(times_s) == len(compared.points):
        return times_s, "seconds since the first batch"
    return [float(number) for number in range(1, len(compared.points) + 1)], "pair"


def _trace(points: Sequence[PairPoint], across: Sequence[float]) -> Trace:
    return trace_of(
        "scatter",
        x=list(across),
        y=[point.ratio for point in points],
        mode="markers",
        marker={
            "size": 8,
            "symbol": ["circle-open" if point.is_warmup else "circle" for point in points],
            "color": ["var(--series)" if p.is_warmup else "var(--accent)" for p in points],
        },
        hovertext=[_hover(number, point) for number, point in enumerate(points, start=1)],
        hoverinfo="text",
    )


def _hover(number: int, point: PairPoint) -> str:
    return f"pair {number}: {point.ratio:.4g}×{', warm-up' if point.is_warmup else ''}"


def _band(compared: Compared) -> list[dict[str, object]]:
    if compared.ratio.interval is None:
        return []
    low, high = compared.ratio.interval
    across = {"type": "rect", "xref": "paper", "x0": 0, "x1": 1, "y0": low, "y1": high}
    look = {"fillcolor": "var(--accent)", "opacity": 0.15, "line": {"width": 0}, "layer": "below"}
    return [across | look]


def _line(at: float, dash: str) -> dict[str, object]:
    colour = "var(--accent)" if dash == "solid" else "var(--bad)"
    line = {"color": colour, "width": 1.5, "dash": dash}
    return {"type": "line", "xref": "paper", "x0": 0, "x1": 1, "y0": at, "y1": at, "line": line}


def _caption(compared: Compared) -> str:
    warmup = sum(point.is_warmup for point in compared.points)
    left_out = f", of which {warmup} hollow ones are warm-up and left out" if warmup else ""
    said = f"How many times as fast B is as A in each of {len(compared.points)} pairs{left_out}."
    band = f"; the band is its 95 % interval {bounds(compared.ratio)}" if _band(compared) else ""
    return f"{said} The line is the ratio {times(compared.ratio)}{band}; dashed: 1, equal."
