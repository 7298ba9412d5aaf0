"""Epochs against batch from trainings of the farm's own, in place of published ones. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from statistics import geometric_mean
from typing import Final

from controller.contracts.base import Scalar
from controller.contracts.manifests import Convergence, ConvergencePoint, MeasuredConvergence
from controller.contracts.records import StoredResult
from controller.reports.groups import LONGEST_REASON
from controller.reports.training_plan import (
    QUALITY,
    TOOK,
    Asked,
    batch_of,
    unlike_published,
)

STEPS: Final = "steps_to_target"
EVERY: Final = "evaluate_every"
SEED: Final = "seed"


@dataclass(frozen=True, slots=True)
class OwnTrainings:
    """Trainings to the target, by the recipe whose epochs are known."""

    points: tuple[ConvergencePoint, ...]
    """One of each batch and seed that reached it, whatever the machine did meanwhile: epochs are no
    times. Repeats of a seed are no further ones, since they train the same."""
    merged: int
    """Trainings that reached it beyond the first of their batch and seed."""
    unreached: tuple[int, ...]
    """Batches of those that ended before; one for each."""
    why: str
    """What the first of these is objected to; empty if there is nothing."""
    unlike: int
    """Trainings of other knobs or to another target, which are left out."""
    every: float
    """Epochs between two looks at the quality, at most."""

    @property
    def batches(self) -> tuple[int, ...]:
        """The batches at which the target was reached, each once."""
        return tuple(sorted({point.batch for point in self.points}))


def own_trainings(
    convergence: Convergence, results: Iterable[StoredResult], asked: Asked
) -> OwnTrainings:
    """Return what some results tell of a workload's epochs; a retried run counts once."""
    known = [
        result
        for result in results
        if (result.workload, result.scenario) == (asked.workload, QUALITY) and result.counted
    ]
    alike = [one for one in known if _is_alike(convergence, one, asked)]
    reached = [one for one in alike if TOOK in one.metrics]
    points = tuple(_points(convergence, reached, asked))
    unreached = [one for one in alike if TOOK not in one.metrics]
    return OwnTrainings(
        points=points,
        merged=len(reached) - len(points),
        unreached=tuple(batch_of(one.knobs) for one in unreached),
        why=next((reason for one in unreached for reason in one.reasons), ""),
        unlike=len(known) - len(alike),
        every=max((_epochs(convergence, one, EVERY) for one in reached), default=0.0),
    )


def measured_convergence(
    convergence: Convergence, found: OwnTrainings, sweep: str
) -> MeasuredConvergence:
    """Return the epochs of own trainings, which reached the target at two batches or more."""
    source = f"own trainings, sweep {sweep}, scored every {found.every:g} epochs or more often"
    return MeasuredConvergence(
        source=source,
        samples=convergence.samples,
        points=found.points,
        knobs=convergence.knobs,
    )


def own_notes(found: OwnTrainings) -> Sequence[str]:
    """Return what own trainings merge and leave out."""
    notes = []
    if found.merged:
        points = len(found.points)
        notes.append(
            "trainings of one batch and seed are one point, the mean of their logarithms: "
            f"{points + found.merged} trainings are {points} points"
        )
    if found.unreached:
        batches = ", ".join(map(str, sorted(found.unreached)))
        count = len(found.unreached)
        notes.append(
            f"{count} trainings ended before the target, at batch {batches}, and the law does not "
            f"know them{found.why and f': {found.why[:LONGEST_REASON]}'}"
        )
    if found.unlike:
        notes.append(f"{found.unlike} trainings of other knobs or another target are left out")
    return notes


def _points(
    convergence: Convergence, reached: Iterable[StoredResult], asked: Asked
) -> Iterator[ConvergencePoint]:
    """Yield the geometric mean of the epochs of each batch and seed."""
    epochs: dict[tuple[int, Scalar | None], list[float]] = {}
    missed: dict[tuple[int, Scalar | None], float] = {}
    for one in reached:
        seed = {**asked.defaults.get(one.stack, {}), **one.knobs}.get(SEED)
        which = batch_of(one.knobs), seed
        took = _epochs(convergence, one, STEPS)
        epochs.setdefault(which, []).append(took)
        before = max(0.0, took - _epochs(convergence, one, EVERY))
        missed[which] = min(before, missed.get(which, before))
    for which, each in epochs.items():
        same_epochs = len(set(each)) == 1  # which rounding would change a little
        mean = each[0] if same_epochs else geometric_mean(each)
        yield ConvergencePoint(batch=which[0], epochs=mean, missed=missed[which])


def _is_alike(convergence: Convergence, one: StoredResult, asked: Asked) -> bool:
    told = STEPS in one.environment or TOOK not in one.metrics
    same = one.knobs.get("target") == asked.target
    unlike = any(unlike_published(convergence, one.knobs))
    return told and same and batch_of(one.knobs) > 0 and not unlike


def _epochs(convergence: Convergence, one: StoredResult, name: str) -> float:
    """Return how many epochs a training's steps are, of a fact or a knob that counts them."""
    told = one.environment.get(name, one.knobs.get(name))
    steps = told if isinstance(told, int | float) else 0
    return steps * batch_of(one.knobs) / convergence.samples
