"""The steps of a profiled job beside the same steps with another malloc, in turns."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from agents.attempts.protocol import AttemptRunner
from agents.attempts.sides import part_of
from controller.contracts.counters import OtherMalloc
from controller.contracts.errors import WorkerFault
from controller.contracts.result import Failure, Result, Validity
from controller.contracts.wire import CandidateJob, Progress, WorkerSpec

GLIBC: Final = "glibc"
"""The value of knob `malloc` that leaves glibc untuned."""
OTHER: Final = "jemalloc"
METRIC: Final = "step_time"
WIDTH: Final = 0.04
"""Of the interval, as a share of the ratio, below which no further pairs are made."""
LIMIT_S: Final = 60.0
LEAST_STEPS: Final = 40
"""Steps for which there is time, however long they are: some ten pairs, half of them uncounted;
some three where batches are loaded ahead."""


def is_due(spec: WorkerSpec, plain: Result, watched: Result) -> bool:
    """Return whether a job's glibc is untuned, where watched steps have found another malloc."""
    mallocs = {result.environment.get("malloc") for result in (plain, watched)}
    return spec.job.knobs.get("malloc") == GLIBC and len(mallocs) > 1


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
        time_limit_s=max(LIMIT_S, LEAST_STEPS * step_s),
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
