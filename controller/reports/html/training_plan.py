"""A training plan as an HTML page, with the chart of figure 7 of arXiv 2206.10034."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Final

from controller.contracts.training_plan import TrainingPlan
from controller.reports.epochs_law import EpochsLaw, epochs_law
from controller.reports.html.charts import Chart, Trace, figure_of, layout_of, trace_of
from controller.reports.html.page import Page, render
from controller.reports.training_plan_table import (
    COLUMNS,
    curve_lines,
    interval_of,
    remark_lines,
    rows_of,
)

HEIGHT: Final = 360
_STEPS: Final = 60
"""Places along the chart at which the law is drawn."""


def training_plan_html(plan: TrainingPlan) -> str:
    """Return the curve and the table of a plan as one self-contained file."""
    return render(
        Page(
            title=f"Training {plan.workload} to its quality target",
            description=f"Epochs as {_known(plan)}, times as measured.",
            template="training_plan.html",
            contents=[("epochs", "Epochs against batch"), ("plan", "Time to train")],
            charts=[epochs_chart(plan)],
            context={
                "lines": curve_lines(plan),
                "caption": f"Epochs as {_known(plan)} times measured epochs' time, "
                "with 95 % intervals",
                "headings": COLUMNS,
                "rows": [*rows_of(plan)],
                "remarks": [*remark_lines(plan)],
            },
        )
    )


def epochs_chart(plan: TrainingPlan) -> Chart:
    """Draw the points, the law through them, and its band where there is one."""
    law = epochs_law(plan.points)
    batches = [point.batch for point in plan.points] + [one.batch for one in plan.planned]
    across = _places(min(batches), max(batches))
    layout = layout_of(
        height=HEIGHT,
        margin={"l": 64, "r": 16, "t": 8, "b": 52},
        xaxis={"title": {"text": "batch (samples in a step)"}, "type": "log"},
        yaxis={"title": {"text": "epochs"}, "type": "log"},
        showlegend=False,
    )
    traces = [*_band(law, across), _line(law, across), _points(plan), _planned(plan)]
    figure = figure_of(traces, layout)
    caption = (
        f"Diamonds are {_known(plan)}; the line is the least squares of their logarithms, level "
        f"below their smallest batch; the band is the 95 % interval of {interval_of(plan)}; "
        "circles are the batches that were measured."
    )
    return Chart("epochs-chart", "Epochs against batch", caption, HEIGHT, figure)


def _known(plan: TrainingPlan) -> str:
    return "trained" if plan.own else "published"


def _places(low: float, high: float) -> list[float]:
    reach = math.log(high / low)
    return [low * math.exp(reach * step / _STEPS) for step in range(_STEPS + 1)]


def _band(law: EpochsLaw, across: Sequence[float]) -> list[Trace]:
    known = [(x, at.value, at.factor) for x in across if (at := law.at(x)).factor]
    there = [x for x, _, _ in known]
    low = [value / (factor or 1.0) for _, value, factor in known]
    high = [value * (factor or 1.0) for _, value, factor in known]
    look = {"mode": "lines", "line": {"width": 0}, "hoverinfo": "skip"}
    upper = {"fill": "tonexty", "fillcolor": "var(--accent)", "opacity": 0.15}
    return [
        trace_of("scatter", x=there, y=low, **look),
        trace_of("scatter", x=there, y=high, **look, **upper),
    ]


def _line(law: EpochsLaw, across: Sequence[float]) -> Trace:
    line = {"color": "var(--accent)", "width": 2}
    epochs = [law.at(x).value for x in across]
    return trace_of("scatter", x=list(across), y=epochs, mode="lines", line=line, hoverinfo="skip")


def _points(plan: TrainingPlan) -> Trace:
    return trace_of(
        "scatter",
        x=[point.batch for point in plan.points],
        y=[point.epochs for point in plan.points],
        mode="markers",
        marker={"size": 10, "symbol": "diamond", "color": "var(--reference)"},
        hovertext=[f"batch {p.batch}: {p.epochs:.4g} epochs, {_known(plan)}" for p in plan.points],
        hoverinfo="text",
    )


def _planned(plan: TrainingPlan) -> Trace:
    found = {one.batch: one.epochs.value for one in plan.planned}
    return trace_of(
        "scatter",
        x=list(found),
        y=list(found.values()),
        mode="markers",
        marker={"size": 8, "symbol": "circle-open", "color": "var(--series)"},
        hovertext=[f"batch {batch}: {epochs:.3g} epochs" for batch, epochs in found.items()],
        hoverinfo="text",
    )
