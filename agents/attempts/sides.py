"""The sides of a comparison: a worker that stays alive, or whole runs of a program on a device."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median
from typing import Protocol

from agents.attempts.conversation import Conversation
from agents.attempts.protocol import AttemptRunner
from agents.attempts.worker_process import WorkerProcess
from agents.pairing.interleave import Side
from controller.contracts.errors import WorkerFault
from controller.contracts.result import Blame, Failure, Measurement, Outcome, Result, worst
from controller.contracts.wire import Progress, StepBatch, WorkerSpec


class MeasuredSide(Side, Protocol):
    """A Side that can be started, finished and ended."""

    async def ready(self) -> None:
        """Wait until the first batch may run; called once, first. Raises WorkerFault."""
        ...

    async def finish(self) -> Result:
        """Return the result of all batches; called once, after the last. Raises WorkerFault."""
        ...

    async def end(self) -> None:
        """End all processes; called once, last, however the comparison ended."""
        ...

    @property
    def rest_cpu_s(self) -> float | None:
        """CPU seconds used so far between batches, when it should be idle; None: nothing stays
        alive."""
        ...

    @property
    def uncounted(self) -> int:
        """Steps at the beginning of each batch that are not counted; known once it is ready."""
        ...


class WorkerSide:
    """A worker process that stays alive between its batches, waiting on its standard input."""

    def __init__(self, process: WorkerProcess, spec: WorkerSpec, name: str) -> None:
        self._name = name
        self._talk = Conversation()
        batches = spec.model_copy(update={"in_batches": True})
        self._life = asyncio.create_task(process.run(batches, _unheard, self._talk))
        self.rest_cpu_s = 0.0
        self.uncounted = 1

    async def ready(self) -> None:
        """See MeasuredSide.ready."""
        self.uncounted = (await self._heard()).uncounted

    async def run_batch(self, steps: int) -> tuple[float, ...]:
        """See Side.run_batch."""
        await self._talk.order(steps)
        batch = await self._heard()
        self.rest_cpu_s += batch.rest_cpu_s
        return batch.samples

    async def finish(self) -> Result:
        """See MeasuredSide.finish."""
        await self._talk.order(0)
        return _measured(await self._life, self._name)

    async def end(self) -> None:
        """See MeasuredSide.end."""
        self._life.cancel()
        await asyncio.wait({self._life})

    async def _heard(self) -> StepBatch:
        """Wait for a batch; raises if the worker ends before."""
        hearing = asyncio.ensure_future(self._talk.next_batch())
        try:
            await asyncio.wait({hearing, self._life}, return_when=asyncio.FIRST_COMPLETED)
            if hearing.done():
                return hearing.result()
        finally:
            hearing.cancel()
        _measured(self._life.result(), self._name)
        message = f"side {self._name}: its worker ended before the comparison did"
        raise WorkerFault(Failure(blame=Blame.HARNESS, kind="protocol", message=message))


@dataclass(slots=True)
class WholeRuns:
    """A program that is started again for each batch, which is one whole run."""

    runner: AttemptRunner
    spec: WorkerSpec
    name: str
    metric: str
    results: list[Result] = field(default_factory=list)
    rest_cpu_s: None = None
    """No process stays alive between batches."""
    uncounted: int = 0
    """See MeasuredSide.uncounted."""

    async def ready(self) -> None:
        """See MeasuredSide.ready."""

    async def run_batch(self, steps: int) -> tuple[float, ...]:
        """See Side.run_batch; a run is one step, whose sample is the metric's value."""
        spec = part_of(self.spec, str(len(self.results)))
        result = _measured(await self.runner.run(spec, _unheard), self.name)
        value = result.metrics[self.metric].value
        if value <= 0:  # as a user's program may print
            raise WorkerFault(_no_ratio(self.name, self.metric, value))
        self.results.append(result)
        return (value,)

    async def finish(self) -> Result:
        """See MeasuredSide.finish."""
        return merged(self.results)

    async def end(self) -> None:
        """See MeasuredSide.end; the runner leaves nothing behind."""


def part_of(spec: WorkerSpec, name: str) -> WorkerSpec:
    """Return a job for a part of an attempt, with its own identity and folder."""
    ref = spec.job.ref.model_copy(update={"run_id": f"{spec.job.ref.run_id}-{name}"})
    folder = Path(spec.artefact_dir) / name
    folder.mkdir(parents=True, exist_ok=True)
    job = spec.job.model_copy(update={"ref": ref, "candidate": None})
    return spec.model_copy(update={"job": job, "artefact_dir": str(folder)})


def merged(results: list[Result]) -> Result:
    """Merge the results of several runs of one program: each value becomes a sample."""
    reasons = tuple(dict.fromkeys(reason for result in results for reason in result.reasons))
    found: dict[str, list[Measurement]] = {}
    for result in results:
        for name, measurement in result.metrics.items():
            found.setdefault(name, []).append(measurement)
    return Result(
        validity=worst(result.validity for result in results),
        reasons=reasons,
        metrics={
            name: Measurement(
                value=median(m.value for m in measured),
                unit=measured[0].unit,
                samples=tuple(m.value for m in measured),
            )
            for name, measured in found.items()
        },
        environment=results[0].environment,
        artefacts={
            f"{number}_{name}": path
            for number, result in enumerate(results)
            for name, path in result.artefacts.items()
        },
    )


def _measured(outcome: Outcome, name: str) -> Result:
    if isinstance(outcome, Failure):
        message = f"side {name}: {outcome.message}"
        raise WorkerFault(outcome.model_copy(update={"message": message}))
    return outcome


def _no_ratio(name: str, metric: str, value: float) -> Failure:
    message = (
        f"side {name}: {metric} is {value:g}, of which there is no ratio. Have its program print "
        "a value above 0, as with more digits or in a longer run."
    )
    return Failure(blame=Blame.WORKLOAD, kind="no_ratio", message=message)


def _unheard(_: Progress) -> None:
    """Ignore a side's progress; the comparison reports its own."""
