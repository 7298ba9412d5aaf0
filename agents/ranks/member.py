"""One rank: a process that trains on its share of every batch, a step for each order."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from functools import partial

from torch import distributed

from agents.backends.denormals import denormal_facts
from agents.host.parent import end_with_parent
from agents.ranks.contention import alone_and_together
from agents.ranks.gradients import GradientMean
from agents.ranks.meeting import join, with_far_ranks
from agents.ranks.protocol import RankEnd, RankMessage, RankReady, RankStep
from agents.stacks.resolving import resolve
from controller.contracts.errors import WorkerFault
from controller.contracts.result import Blame, Failure
from controller.contracts.wire import TrainingProgram, WorkerSpec
from models.training import Batch, Outputs, TrainingWorkload


def run(spec: WorkerSpec, orders: Iterable[int], say: Callable[[RankMessage], None]) -> None:
    """Train until the orders end, and say what each step took; raises WorkerFault."""
    place, program = spec.rank, spec.job.program
    if place is None or not isinstance(program, TrainingProgram):
        raise TypeError("a rank needs its place and a workload that trains")
    end_with_parent()
    backend = resolve(program.backend)(spec.job.knobs)
    workload = resolve(program.builder)(**program.arguments)
    require_shares(workload, place.ranks, spec.job.workload)
    join(place, spec.job.share, spec.job.deadline_s)
    model, optimizer = backend.prepare(workload)
    mean = GradientMean(optimizer, place.ranks)
    say(RankReady(batch_size=workload.batch_size))
    batch = workload.share(workload.batch(0), place.rank, place.ranks)
    seconds = 0.0
    for number, _ in enumerate(orders, start=1):
        began_s = time.perf_counter()
        loss = backend.step(workload, model, optimizer, batch)
        seconds = time.perf_counter() - began_s
        _require_averaged(mean, number, spec)
        step = RankStep(
            loss=loss,
            seconds=seconds,
            computed_s=mean.began_s - began_s,
            exchanged_s=mean.ended_s - mean.began_s,
        )
        say(with_far_ranks(step, place) if spec.job.share else step)
        batch = workload.share(workload.batch(number), place.rank, place.ranks)
    # Of the steps that count; all ranks have the same parameters and mean gradients.
    end = RankEnd(environment={**backend.environment(), **denormal_facts(model)})
    if not spec.in_batches:  # else the other side of a comparison would wait
        mean.exchanges = False
        again = partial(backend.step, workload, model, optimizer, batch)
        alone_s, together_s = alone_and_together(
            again, seconds, first=place.rank % place.local == 0
        )
        end = end.model_copy(update={"alone_s": alone_s, "together_s": together_s})
    say(end)
    distributed.destroy_process_group()


def require_shares(workload: TrainingWorkload[Batch, Outputs], ranks: int, name: str) -> None:
    """Raise WorkerFault, blame user, if ranks can't share a workload's batches equally."""
    if not hasattr(workload, "share"):
        raise _refusal(f"workload {name} does not share its batches", "Set the knob ranks to 1.")
    if workload.batch_size % ranks:
        why = f"batch_size={workload.batch_size} is no multiple of ranks={ranks}"
        raise _refusal(why, "Change one of these knobs.")
    share, least = workload.batch_size // ranks, getattr(workload, "LEAST_SHARE", 1)
    if share < least:
        why = (
            f"batch_size={workload.batch_size} over ranks={ranks} is {share} of a step's samples "
            f"each, and workload {name} trains on {least} or more"
        )
        raise _refusal(why, "Change one of these knobs.")


def _require_averaged(mean: GradientMean, steps: int, spec: WorkerSpec) -> None:
    """Raise WorkerFault if an optimizer's step was without the mean of the gradients."""
    if mean.steps != steps:
        why = (
            f"stack {spec.job.stack} changes the optimizer so that gradients can't be averaged "
            "before its step"
        )
        raise _refusal(why, "Set the knob ranks to 1.")


def _refusal(why: str, remedy: str) -> WorkerFault:
    message = f"cannot train with several ranks: {why}. {remedy}"
    return WorkerFault(Failure(blame=Blame.USER, kind="knobs", message=message))
