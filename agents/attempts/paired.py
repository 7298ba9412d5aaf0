"""The attempt runner for jobs with a candidate: it measures both sides in one attempt."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from dataclasses import dataclass, field

from agents.attempts.protocol import AttemptRunner
from agents.attempts.sides import MeasuredSide, WholeRuns, WorkerSide, part_of
from agents.attempts.worker_process import WorkerProcess
from agents.pairing.interleave import BATCH_S, ComparisonState, Plan, interleave
from agents.pairing.outcome import paired_result
from controller.contracts.errors import WorkerFault
from controller.contracts.result import Blame, Failure, Outcome
from controller.contracts.wire import CandidateJob, Progress, WorkerSpec

PROGRESS_PERIOD_S = 1.0

OpenSide = Callable[[WorkerSpec, str, str], MeasuredSide]
"""Makes a side from its job, its name and the metric to compare."""


@dataclass(frozen=True, slots=True)
class PairedRunner:
    """Attempt runner that compares the two sides of a job; runs jobs without a candidate
    unchanged."""

    single: AttemptRunner
    open_side: OpenSide
    batch_s: float | None
    """See Plan.batch_s."""
    clock: Callable[[], float] = time.monotonic

    async def run(self, spec: WorkerSpec, on_progress: Callable[[Progress], None]) -> Outcome:
        """See AttemptRunner.run."""
        candidate = spec.job.candidate
        if candidate is None:
            return await self.single.run(spec, on_progress)
        jobs = part_of(spec, "a"), part_of(_swapped(spec, candidate), "b")
        a, b = (
            self.open_side(job, name, candidate.metric)
            for job, name in zip(jobs, "AB", strict=True)
        )
        try:
            return await self._compare(spec, candidate, (a, b), on_progress)
        except WorkerFault as fault:
            return fault.failure
        finally:
            await a.end()
            await b.end()

    async def clean(self) -> int:
        """See AttemptRunner.clean."""
        return await self.single.clean()

    async def _compare(
        self,
        spec: WorkerSpec,
        candidate: CandidateJob,
        sides: tuple[MeasuredSide, MeasuredSide],
        on_progress: Callable[[Progress], None],
    ) -> Outcome:
        """Compare within the time limit, which counts from here; raises WorkerFault."""
        (a, b), began = sides, self.clock()
        setup_s, reporter = None, ProgressReporter(candidate, on_progress)
        try:
            async with asyncio.timeout(candidate.time_limit_s) as alarm:

                def tell(state: ComparisonState) -> None:
                    alarm.reschedule(None)  # from the first pair on, their length is known
                    reporter.hear(state)

                await a.ready()
                await b.ready()
                setup_s = reporter.setup_s = self.clock() - began
                uncounted = max(a.uncounted, b.uncounted)
                plan = self._plan(spec, candidate, setup_s, uncounted)
                state = await interleave(a, b, plan, tell, self.clock)
        except TimeoutError:
            if not alarm.expired():
                raise
            return no_pair(candidate.time_limit_s, setup_s)
        rest_cpu_s = (a.rest_cpu_s, b.rest_cpu_s)
        return paired_result(
            candidate.metric, await a.finish(), await b.finish(), state, rest_cpu_s, setup_s
        )

    def _plan(
        self, spec: WorkerSpec, candidate: CandidateJob, setup_s: float, uncounted: int
    ) -> Plan:
        return Plan(
            width=candidate.width,
            time_limit_s=candidate.time_limit_s - setup_s,
            seed=f"{spec.job.ref.run_id}/{spec.job.ref.attempt}",
            batch_s=self.batch_s,
            uncounted=uncounted,
        )


def no_pair(limit_s: float, setup_s: float | None) -> Failure:
    """Return what a comparison comes to whose time was over before its first pair was.

    setup_s: when both sides were ready; None if they never were.
    """
    ready = "never ready" if setup_s is None else f"ready after {setup_s:.0f} s"
    message = (
        f"no pair was measured within the time limit of {limit_s:g} s: both sides were {ready}, "
        "and the first pair takes their warm-up and compilation. Raise the time limit."
    )
    return Failure(blame=Blame.USER, kind="time_limit", message=message)


def paired_workers(process: WorkerProcess) -> PairedRunner:
    """Return the runner for training comparisons: both workers stay alive and alternate."""
    return PairedRunner(process, lambda job, name, _: WorkerSide(process, job, name), BATCH_S)


def paired_runs(runner: AttemptRunner) -> PairedRunner:
    """Return the runner for comparisons on a device: each batch is a whole run."""
    return PairedRunner(
        runner, lambda job, name, metric: WholeRuns(runner, job, name, metric), None
    )


@dataclass(slots=True)
class ProgressReporter:
    """Reports the state of a comparison, at most once a second."""

    candidate: CandidateJob
    on_progress: Callable[[Progress], None]
    setup_s: float = 0.0
    last: float = field(default=float("-inf"))

    def hear(self, state: ComparisonState) -> None:
        """Take the state after a pair."""
        if time.monotonic() - self.last < PROGRESS_PERIOD_S:
            return
        self.last = time.monotonic()
        limit = round(self.candidate.time_limit_s)
        values = {"pairs": float(len(state.pairs))}
        if state.ratio.bounded:
            values["width"] = state.ratio.width
        done = min(limit, round(self.setup_s + state.elapsed_s))
        self.on_progress(Progress(phase="comparing", done=done, total=limit, values=values))


def _swapped(spec: WorkerSpec, candidate: CandidateJob) -> WorkerSpec:
    """Return the job of side B alone."""
    side = {
        "stack": candidate.stack,
        "knobs": candidate.knobs,
        "program": candidate.program,
        "candidate": None,
    }
    return spec.model_copy(update={"job": spec.job.model_copy(update=side)})
