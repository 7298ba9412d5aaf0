"""The steps of a profiled job beside the same steps with another malloc, in turns."""

from __future__ import annotations

from collections.abc import Callable
from math import prod
from typing import Final

from agents.attempts.protocol import AttemptRunner
from agents.attempts.sides import part_of
from controller.contracts.counters import OtherMalloc
from controller.contracts.errors import WorkerFault
from controller.contracts.result import Blame, Failure, Result, Validity
from controller.contracts.wire import CandidateJob, Progress, WorkerSpec

GLIBC: Final = "glibc"
"""The value of knob `malloc` that leaves glibc untuned."""
OTHER: Final = "jemalloc"
METRIC: Final = "step_time"
WIDTH: Final = 0.04
"""Of the interval, as a share of the ratio, below which no further pairs are made."""
PAIRS: Final = 14
"""Pairs for which there is time, however long a step is: enough for an interval, and some more,
since the first may be left out."""
SETUP_S: Final = 30.0
"""Allowed for starting two workers and their warm-up."""
LEAST_S: Final = 60.0
MOST_S: Final = 300.0
"""A comparison that would take longer is left to whoever asks for it."""


def is_due(spec: WorkerSpec, plain: Result, watched: Result) -> bool:
    """Return whether a job's glibc is untuned, where watched steps have found another malloc."""
    mallocs = {result.environment.get("malloc") for result in (plain, watched)}
    return spec.job.knobs.get("malloc") == GLIBC and len(mallocs) > 1


def limit_s(spec: WorkerSpec, step_s: float) -> float:
    """Return the time limit of a job's comparison; step_s: seconds of a step.

    A pair has a step of each side that counts, and each side's that don't: one, and as many as
    batches are loaded ahead. Raises WorkerFault if it is beyond what a profile may take.
    """
    knobs, loading = spec.job.knobs, ("loader_workers", "prefetch")
    ahead = prod(int(knobs[name]) for name in loading) if knobs.keys() >= {*loading} else 0
    wanted = max(LEAST_S, SETUP_S + PAIRS * 2 * (2 + ahead) * step_s)
    if wanted <= min(MOST_S, spec.job.deadline_s / 2):  # the last pair may be a slow one
        return wanted
    sides = " ".join(f"{spec.job.stack}:malloc={malloc}" for malloc in (GLIBC, OTHER))
    message = (
        f"{PAIRS} pairs of its steps take some {wanted:.0f} s. Run "
        f"`benchfarm compare {sides} --workload {spec.job.workload}` if they are worth that."
    )
    raise WorkerFault(Failure(blame=Blame.USER, kind="time_limit", message=message))


async def compared(
    timed: AttemptRunner, spec: WorkerSpec, step_s: float, on_progress: Callable[[Progress], None]
) -> OtherMalloc:
    """Compare a job's steps with those of another malloc.

    timed: runs jobs with a candidate as comparisons. Raises WorkerFault.
    """
    job, part = spec.job, part_of(spec, "reallocated")
    candidate = CandidateJob(
        stack=job.stack,
        knobs={**job.knobs, "malloc": OTHER},
        program=job.program,
        metric=METRIC,
        width=WIDTH,
        time_limit_s=limit_s(spec, step_s),
    )
    part = part.model_copy(update={"job": part.job.model_copy(update={"candidate": candidate})})
    outcome = await timed.run(part, on_progress)
    if isinstance(outcome, Failure):
        raise WorkerFault(outcome)
    return _told(outcome)


def _told(result: Result) -> OtherMalloc:
    low, high = (result.metrics.get(name) for name in ("ratio_low", "ratio_high"))
    return OtherMalloc(
        malloc=str(result.environment.get("b.malloc", OTHER)),
        times=result.metrics["ratio"].value,
        low=low.value if low else None,
        high=high.value if high else None,
        pairs=len(result.pairs),
        notes=() if result.validity is Validity.VALID else result.reasons,
    )
