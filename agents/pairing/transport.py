"""A job with a rival: both sides in one attempt, which holds the device for as long as it takes."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field

from agents.pairing.interleave import TURN_S, Plan, Standing, interleave
from agents.pairing.outcome import paired_result
from agents.pairing.sides import MeasuredSide, WholeRuns, WorkerSide, part_of
from agents.transports.local import LocalProcess
from agents.transports.protocol import Transport
from controller.contracts.errors import WorkerFault
from controller.contracts.result import Outcome
from controller.contracts.wire import Progress, Rival, WorkerSpec

PROGRESS_PERIOD_S = 1.0

OpenSide = Callable[[WorkerSpec, str, str], MeasuredSide]
"""From a side's job, its name and the metric that is compared."""


@dataclass(frozen=True, slots=True)
class Paired:
    """A Transport: compares where a job has a rival, and leaves the others to another transport."""

    single: Transport
    open_side: OpenSide
    turn_s: float | None
    """As Plan.turn_s."""

    async def run(self, spec: WorkerSpec, on_progress: Callable[[Progress], None]) -> Outcome:
        """See Transport.run."""
        rival = spec.job.rival
        if rival is None:
            return await self.single.run(spec, on_progress)
        jobs = part_of(spec, "a"), part_of(_swapped(spec, rival), "b")
        a, b = (
            self.open_side(job, name, rival.metric) for job, name in zip(jobs, "AB", strict=True)
        )
        try:
            return await self._compare(spec, rival, a, b, Telling(rival, on_progress))
        except WorkerFault as fault:
            return fault.failure
        finally:
            await a.end()
            await b.end()

    async def clean(self) -> int:
        """See Transport.clean."""
        return await self.single.clean()

    async def _compare(
        self, spec: WorkerSpec, rival: Rival, a: MeasuredSide, b: MeasuredSide, telling: Telling
    ) -> Outcome:
        plan = Plan(
            width=rival.width,
            time_limit_s=rival.time_limit_s,
            seed=f"{spec.job.ref.run_id}/{spec.job.ref.attempt}",
            turn_s=self.turn_s,
        )
        await a.ready()
        await b.ready()
        standing = await interleave(a, b, plan, telling.hear)
        rest_cpu_s = (a.rest_cpu_s, b.rest_cpu_s)
        return paired_result(rival.metric, await a.finish(), await b.finish(), standing, rest_cpu_s)


def turn_taking(process: LocalProcess) -> Paired:
    """Return what compares programs that train: both workers stay alive and take turns."""
    return Paired(process, lambda job, name, _: WorkerSide(process, job, name), TURN_S)


def alternating(transport: Transport) -> Paired:
    """Return what compares programs of a device's own runtime: a turn is a whole run."""
    return Paired(
        transport, lambda job, name, metric: WholeRuns(transport, job, name, metric), None
    )


@dataclass(slots=True)
class Telling:
    """Passes on how a comparison stands, at most once a second."""

    rival: Rival
    on_progress: Callable[[Progress], None]
    last: float = field(default=float("-inf"))

    def hear(self, standing: Standing) -> None:
        """Take how it stands after a pair."""
        if time.monotonic() - self.last < PROGRESS_PERIOD_S:
            return
        self.last = time.monotonic()
        limit = round(self.rival.time_limit_s)
        values = {"pairs": float(len(standing.pairs))}
        if standing.ratio.bounded:
            values["width"] = standing.ratio.width
        done = min(limit, round(standing.elapsed_s))
        self.on_progress(Progress(phase="comparing", done=done, total=limit, values=values))


def _swapped(spec: WorkerSpec, rival: Rival) -> WorkerSpec:
    """Return the job of side B as if it were alone."""
    side = {"stack": rival.stack, "knobs": rival.knobs, "program": rival.program, "rival": None}
    return spec.model_copy(update={"job": spec.job.model_copy(update=side)})
