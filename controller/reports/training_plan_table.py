"""A training plan for people: the curve in words, and a table. Pure."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Final

from rich.table import Table

from controller.contracts.base import scalar_text
from controller.contracts.training_plan import Estimate, PlannedTraining, TrainingPlan
from controller.reports.epochs_law import epochs_law
from controller.reports.profile_tables import duration
from controller.stats.power_law import PowerLaw

COLUMNS = ("device", "recipe", "batch", "step", "epoch", "epochs", "time to train", "runs", "took")
_UNITS = ((86400.0, "days"), (3600.0, "h"), (60.0, "min"))
HOSTS: Final = "hosts"
_SHOWN = 3
"""Digits of a figure."""


def curve_lines(plan: TrainingPlan) -> list[str]:
    """Return what is known of epochs, the law through it, and how little that may tell."""
    each: dict[int, list[str]] = {}
    for point in plan.points:
        each.setdefault(point.batch, []).append(f"{point.epochs:.4g}")
    points = ", ".join(f"{batch} → {' '.join(epochs)}" for batch, epochs in each.items())
    law = epochs_law(plan.points).law
    told = f"{plan.factor:.{_SHOWN}g} × batch^{plan.exponent:.{_SHOWN}g}{_error(law)}"
    return [
        f"{plan.workload}: batch → epochs: {points} ({plan.source}; {plan.samples:,} samples)",
        f"epochs = {told}, the least squares of their logarithms; {_width(plan, law)}",
    ]


def _error(law: PowerLaw) -> str:
    """Return the exponent's interval, and whether it tells that batch and epochs depend at all."""
    if (error := law.exponent_error) is None:
        return ""
    low, high = law.exponent - error, law.exponent + error
    unsure = "; not resolved: 0 is inside" if low <= 0 <= high else ""
    return f" (95 %: {low:.2g} to {high:.2g}{unsure})"


def _width(plan: TrainingPlan, law: PowerLaw) -> str:
    """Return how wide the law's interval is where it is narrow: at a batch of the points."""
    factors = [law.at(point.batch).factor for point in plan.points]
    known = [factor for factor in factors if factor is not None]
    if not known:
        return f"{len(plan.points)} points tell nothing of how far off it is"
    points = len(plan.points)
    whose = interval_of(plan)
    return f"of {points} points, the 95 % interval of {whose} is ×/÷ {min(known):.2g} at best"


def interval_of(plan: TrainingPlan) -> str:
    """Return what the law's interval is of: what each of its points is.

    Published points are means of several trainings, which vary less than one training.
    """
    return "a new training" if plan.own else "the mean of new trainings"


def plan_table(plan: TrainingPlan) -> Table:
    """Return a row for each cell on a device, and for devices at once."""
    table = Table(*COLUMNS)
    for row in rows_of(plan):
        table.add_row(*row)
    return table


def rows_of(plan: TrainingPlan) -> Iterator[list[str]]:
    """Yield the texts of each row, as COLUMNS names them."""
    differing = _differing(plan.planned)
    for planned in plan.planned:
        knobs = [
            f"{name}={scalar_text(planned.knobs[name])}"
            for name in differing
            if name in planned.knobs
        ]
        yield [
            " + ".join(planned.shown),
            " ".join((*dict.fromkeys(planned.stacks), *knobs)),
            f"{planned.batch}",
            _text(planned.step_s, _span),
            _text(planned.epoch_s, _span),
            _text(planned.epochs, _figure),
            _text(planned.train_s, _span),
            f"{planned.runs}",
            _text(planned.took_s, _span) if planned.took_s else "",
        ]


def remark_lines(plan: TrainingPlan) -> Iterator[str]:
    """Yield what limits the figures, once each."""
    yield from dict.fromkeys(note for planned in plan.planned for note in planned.notes)
    if any(planned.took_s for planned in plan.planned):
        yield "took: trainings to the target by the same recipe, without their evaluations"
    unlike = dict.fromkeys(said for planned in plan.planned for said in planned.unlike_published)
    if unlike:
        known = "those of" if plan.own else "published for"
        yield f"epochs are {known} other training than measured: {'; '.join(unlike)}"


def _differing(planned: Sequence[PlannedTraining]) -> list[str]:
    """Return the knobs by which cells differ, without the batch, which has its own column.

    Also `hosts`, which only cells of several hosts have: their row looks like that of a team.
    """
    cells = [one.knobs for one in planned if one.knobs]
    names = dict.fromkeys(name for knobs in cells for name in knobs if name != "batch_size")
    return [n for n in names if n == HOSTS or len({knobs.get(n) for knobs in cells}) > 1]


def _text(estimate: Estimate, shown: Callable[[float], str]) -> str:
    if estimate.low is None or estimate.high is None:
        return shown(estimate.value)
    return f"{shown(estimate.value)} [{shown(estimate.low)}, {shown(estimate.high)}]"


def _figure(value: float) -> str:
    return f"{value:.{_SHOWN}g}"


def _span(seconds: float) -> str:
    """Return a time in the largest unit of which it has one."""
    for size, unit in _UNITS:
        if seconds >= size:
            return f"{_figure(seconds / size)} {unit}"
    return duration(seconds)
