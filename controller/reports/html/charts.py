"""Charts as plotly figures, with CSS variables as colours.

Every colour is `var(--name)`; templates/page.js replaces it by the theme's colour, so one figure
serves light, dark and print.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from html import unescape
from textwrap import wrap
from typing import Any, Literal, TypeAlias

from controller.contracts.units import Unit
from controller.reports.html.text import escape, shortened

Tone = Literal["best", "reference", "plain"]
Trace: TypeAlias = Mapping[str, Any]
"""A trace in plotly.js's format, with its `type`."""
Layout: TypeAlias = Mapping[str, Any]
"""A layout in plotly.js's format."""
_COLOURS: Mapping[Tone, str] = {
    "best": "var(--accent)",
    "reference": "var(--reference)",
    "plain": "var(--series)",
}
_SYMBOLS: Mapping[Tone, str] = {"best": "circle", "reference": "diamond", "plain": "circle"}

LABEL_WIDTH, LABEL_LINES = 24, 4
"""Characters of a line of a row's label, wrapped to fit a phone, and lines of a label."""
LONGEST_LABEL = 500
"""Characters of a label in the text of its point, and of a name in a table."""
_LETTER_PX, _LINE_PX, _ROW_PX, _AROUND_PX = 7, 15, 14, 72
_LOG_FROM = 20.0
"""Values that differ by more than this factor get a logarithmic axis."""


@dataclass(frozen=True, slots=True)
class Chart:
    """A figure with its title and caption; `anchor` is the id of its element."""

    anchor: str
    title: str
    caption: str
    height: int
    """Pixels."""
    figure: Mapping[str, Any]
    """`data` and `layout` in plotly.js's format."""
    numbers: str = "The table below has the numbers."
    """Where its numbers are as text, for those who don't see it."""


@dataclass(frozen=True, slots=True)
class Point:
    """A value in a row of its own, with its interval."""

    label: str
    value: float
    interval: tuple[float, float] | None = None
    tone: Tone = "plain"
    interval_name: str = "95 % interval"


@dataclass(frozen=True, slots=True)
class Box:
    """Five quantiles in a row of their own: whiskers, quartiles and median."""

    label: str
    quantiles: tuple[float, float, float, float, float]
    tone: Tone = "plain"


@dataclass(frozen=True, slots=True)
class Axis:
    """The axis along a chart: values are multiplied by `factor` and shown in `unit`."""

    heading: str
    factor: float
    unit: str

    @property
    def title(self) -> str:
        """The axis' title."""
        return f"{self.heading} ({self.unit})" if self.unit else self.heading


def axis_for(heading: str, unit: Unit, values: Sequence[float]) -> Axis:
    """Return an axis with a readable scale for values of a unit."""
    scale = {
        Unit.SECONDS: (1.0, "s") if max(values, default=0.0) >= 1 else (1e3, "ms"),
        Unit.FRACTION: (100.0, "%"),
        Unit.BYTES: (2.0**-30, "GiB"),
        Unit.LOSS: (1.0, ""),
    }
    return Axis(heading, *scale.get(unit, (1.0, unit.value)))


def points_chart(
    anchor: str,
    title: str,
    caption: str,
    points: Sequence[Point],
    axis: Axis,
    target: float | None = None,
) -> Chart:
    """Draw one point a row, top to bottom, with intervals; a dashed line marks a target."""
    trace = trace_of(
        "scatter",
        x=[point.value * axis.factor for point in points],
        y=list(range(len(points))),
        mode="markers",
        marker={
            "size": 10,
            "color": [_COLOURS[point.tone] for point in points],
            "symbol": [_SYMBOLS[point.tone] for point in points],
        },
        error_x=_errors(points, axis),
        hovertext=[_hover(point, axis) for point in points],
        hoverinfo="text",
    )
    lines = [] if target is None else [_target_line(target * axis.factor, len(points))]
    labels = [point.label for point in points]
    return _in_rows(anchor, title, caption, labels, [*lines, trace], axis, _ends(points))


def bars_chart(anchor: str, title: str, caption: str, bars: Sequence[Point], axis: Axis) -> Chart:
    """Draw one bar a row from zero, top to bottom, to the left if negative, with its interval."""
    trace = trace_of(
        "bar",
        x=[bar.value * axis.factor for bar in bars],
        y=list(range(len(bars))),
        orientation="h",
        marker={"color": [_COLOURS[bar.tone] for bar in bars]},
        error_x=_errors(bars, axis),
        hovertext=[_hover(bar, axis) for bar in bars],
        hoverinfo="text",
    )
    labels = [bar.label for bar in bars]
    return _in_rows(anchor, title, caption, labels, [trace], axis, [0.0, *_ends(bars)])


def _errors(points: Sequence[Point], axis: Axis) -> Mapping[str, Any]:
    """Return the intervals as plotly has them: how far they reach to each side."""
    spans = [(point.value, *(point.interval or (point.value, point.value))) for point in points]
    return {
        "type": "data",
        "symmetric": False,
        "array": [(high - value) * axis.factor for value, _, high in spans],
        "arrayminus": [(value - low) * axis.factor for value, low, _ in spans],
        "color": "var(--muted)",
        "visible": any(point.interval for point in points),
    }


def _ends(points: Sequence[Point]) -> list[float]:
    return [end for point in points for end in point.interval or (point.value,)]


def boxes_chart(anchor: str, title: str, caption: str, boxes: Sequence[Box], axis: Axis) -> Chart:
    """Draw one box a row, top to bottom, from given quantiles."""
    traces = [
        _boxes([(row, box) for row, box in enumerate(boxes) if box.tone == tone], tone, axis.factor)
        for tone in dict.fromkeys(box.tone for box in boxes)
    ]
    labels = [box.label for box in boxes]
    spans = [quantile for box in boxes for quantile in box.quantiles]
    return _in_rows(anchor, title, caption, labels, traces, axis, spans)


def _boxes(placed: Sequence[tuple[int, Box]], tone: Tone, factor: float) -> Trace:
    names = ("lowerfence", "q1", "median", "q3", "upperfence")
    return trace_of(
        "box",
        orientation="h",
        y=[row for row, _ in placed],
        **{name: [box.quantiles[n] * factor for _, box in placed] for n, name in enumerate(names)},
        line={"color": _COLOURS[tone], "width": 1.5},
        fillcolor="var(--surface)",
        width=0.6,
        hoverinfo="x",
    )


def _in_rows(
    anchor: str,
    title: str,
    caption: str,
    labels: Sequence[str],
    traces: Sequence[Trace],
    axis: Axis,
    spans: Sequence[float],
) -> Chart:
    ticks = [_tick(label) for label in labels]
    lines = [line for tick in ticks for line in tick.split("<br>")]
    height = _AROUND_PX + _ROW_PX * len(labels) + _LINE_PX * len(lines)
    letters = max(len(unescape(line)) for line in lines)
    log = min(spans) > 0 and max(spans) / min(spans) > _LOG_FROM
    layout = layout_of(
        height=height,
        margin={
            "l": _LETTER_PX * letters + 12,
            "r": 16,
            "t": 8,
            "b": 52,
        },
        xaxis={
            "title": {"text": escape(axis.title), "standoff": 8},
            "type": "log" if log else "linear",
            "nticks": 5,
            "tickangle": 0,
        },
        yaxis={
            "tickvals": list(range(len(labels))),
            "ticktext": ticks,
            "range": [len(labels) - 0.5, -0.5],
            "showgrid": False,
            "zeroline": False,
        },
    )
    return Chart(anchor, title, caption, height, figure_of(traces, layout))


def trace_of(kind: str, **own: object) -> Trace:
    """Return a trace of a kind that plotly.js has, with its attributes.

    Figures are made without plotly's own classes, which check every attribute again: they take
    most of the time of a page. tests/unit/reports has them check every chart.
    """
    return {"type": kind, **own}


def figure_of(traces: Sequence[Trace], layout: Layout) -> Mapping[str, Any]:
    """Return a figure in plotly.js's format."""
    return {"data": [*traces], "layout": layout}


def layout_of(**own: object) -> Layout:
    """Return the layout of a chart: what all have (the page's colours, no zoom), and its own."""
    axis = {
        "fixedrange": True,
        "gridcolor": "var(--line)",
        "zerolinecolor": "var(--line)",
        "linecolor": "var(--line)",
        "ticks": "",
    }
    shared: dict[str, Any] = {
        "font": {"color": "var(--ink)", "size": 12, "family": "system-ui, sans-serif"},
        "paper_bgcolor": "rgba(0,0,0,0)",
        "plot_bgcolor": "rgba(0,0,0,0)",
        "hoverlabel": {
            "bgcolor": "var(--surface)",
            "bordercolor": "var(--muted)",
            "font": {"color": "var(--ink)"},
        },
        "showlegend": False,
        "dragmode": False,
        "xaxis": axis,
        "yaxis": axis,
    }
    return _merged(shared, own)


def _merged(shared: Mapping[str, Any], own: Mapping[str, Any]) -> dict[str, Any]:
    """Return attributes with others over them, those inside of each other, too."""
    both = {
        name: _merged(shared[name], value)
        for name, value in own.items()
        if isinstance(value, Mapping) and isinstance(shared.get(name), Mapping)
    }
    return {**shared, **own, **both}


def _target_line(value: float, rows: int) -> Trace:
    return trace_of(
        "scatter",
        x=[value, value],
        y=[-0.5, rows - 0.5],
        mode="lines+markers",
        line={"color": "var(--bad)", "dash": "dash", "width": 1.5},
        marker={"opacity": 0, "size": 10},  # invisible: keeps the line inside the axis range
        hoverinfo="skip",
    )


def _tick(label: str) -> str:
    lines = wrap(shortened(label, LONGEST_LABEL), LABEL_WIDTH)
    if len(lines) > LABEL_LINES:
        lines[LABEL_LINES - 1 :] = [f"{lines[LABEL_LINES - 1][: LABEL_WIDTH - 1]}…"]
    # plotly interprets some HTML in texts.
    return "<br>".join(escape(line) for line in lines)


def _hover(point: Point, axis: Axis) -> str:
    label = escape(shortened(point.label, LONGEST_LABEL))
    said = f"<b>{label}</b><br>{_figure(point.value * axis.factor)} {escape(axis.unit)}"
    if point.interval is None:
        return said
    low, high = (end * axis.factor for end in point.interval)
    interval = f"{_figure(low)} to {_figure(high)}"
    return f"{said}<br>{point.interval_name} {interval} {escape(axis.unit)}"


def _figure(value: float) -> str:
    """Return four digits of a value, without a power of ten."""
    text = f"{value:.4g}"
    return f"{float(text):.12f}".rstrip("0").rstrip(".") if "e" in text else text
