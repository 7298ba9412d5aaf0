"""The chart of a metric's raw samples, in the order in which they were measured."""

from __future__ import annotations

from typing import Final

from controller.contracts.result import Measurement
from controller.reports.html.charts import Chart, axis_for, figure_of, layout_of, trace_of
from controller.reports.html.text import escape

HEIGHT: Final = 240
MOST_DRAWN: Final = 2000
"""Points of a chart; of more samples, every n-th is drawn."""


def samples_chart(anchor: str, heading: str, measured: Measurement) -> Chart:
    """Draw the samples of a metric in order, with a line at the reported value."""
    samples = measured.samples
    step = -(-len(samples) // MOST_DRAWN)
    places = range(0, len(samples), step)
    axis = axis_for(heading, measured.unit, samples)
    value = measured.value * axis.factor
    line = {"type": "line", "xref": "paper", "x0": 0, "x1": 1, "y0": value, "y1": value}
    layout = layout_of(
        height=HEIGHT,
        margin={"l": 64, "r": 16, "t": 8, "b": 44},
        xaxis={"title": {"text": "sample"}, "nticks": 6},
        yaxis={"title": {"text": escape(axis.title)}, "nticks": 5, "zeroline": False},
        shapes=[{**line, "line": {"color": "var(--accent)", "width": 1}}],
    )
    trace = trace_of(
        "scatter",
        x=[place + 1 for place in places],
        y=[samples[place] * axis.factor for place in places],
        mode="markers",
        marker={"size": 5, "color": "var(--series)"},
        hoverinfo="x+y",
    )
    of_all = f", of which every {step}th is drawn" if step > 1 else ""
    caption = f"{len(samples):,} raw samples in order{of_all}; the line is the reported value."
    figure = figure_of([trace], layout)
    return Chart(anchor, f"{heading[:1].upper()}{heading[1:]}", caption, HEIGHT, figure)
