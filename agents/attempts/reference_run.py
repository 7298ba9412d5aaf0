"""Reference answers: the host's own runtime on the same model and samples, without a delegate."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import PurePosixPath
from typing import Final

from agents.attempts.on_device import ANSWERS, runner_spec, task_of
from agents.attempts.runner_program import run_folder, run_runner, write_spec
from agents.host.cores import as_progress, exclusive_cores
from agents.inference.content import Content, Ready, Runtime
from agents.inference.reference_answers import Reference, ReferenceAnswers
from agents.remotes.remote import RUNS, Remote
from controller.contracts.base import Scalar, digest
from controller.contracts.device import Device
from controller.contracts.errors import WorkerFault
from controller.contracts.result import Blame, Result
from controller.contracts.wire import Job, OnDeviceProgram, Progress, WorkerSpec
from models.mobile.preparation import DEVICE

WAIT_S: Final = 60.0
"""Longest wait for what is measured on this host."""
COMPUTE_S: Final = 180.0
"""Longest time to compute."""
MOST_S: Final = 260.0
"""Longest time for a reference in all, with preparing and comparing. The phone rests meanwhile, and
MLPerf Mobile allows 300 s between two tasks: so there is time left to begin the next one."""
PHASE: Final = "reference"
KNOBS: Final[dict[str, Scalar]] = {
    "delegate": "none",
    "batch_size": 1,
    "length": "rapid",
    "policy": "ci",
}
"""An accuracy run has neither a length nor conditions, so that these values change no answer."""


class NotQuietError(Exception):
    """Others used the host's cores for longer than a reference may wait."""


@dataclass(slots=True)
class ReferenceRuns:
    """Computes reference answers on this host, each once, while nothing is measured on it."""

    content: Content
    remote: Remote
    """This host."""
    host: Device
    kept: ReferenceAnswers
    wait_s: float = WAIT_S
    compute_s: float = COMPUTE_S
    most_s: float = MOST_S
    _computing: asyncio.Lock = field(default_factory=asyncio.Lock)
    _failed: dict[str, WorkerFault] = field(default_factory=dict)
    """By key: what would fail again."""

    async def task(self, spec: WorkerSpec, program: OnDeviceProgram) -> Ready:
        """Return a run's task, prepared; raises UserError, WorkerFault."""
        return await self.content.task(*task_of(spec.job, program.workload))

    async def answers(
        self,
        spec: WorkerSpec,
        program: OnDeviceProgram,
        ready: Ready,
        on_progress: Callable[[Progress], None],
    ) -> Reference:
        """Return the answers to a task's first samples, computed unless they are kept.

        Raises UserError, WorkerFault, RemoteFault, NotQuietError, OSError.
        """
        runtime = await self.content.runtime(program.bundle, str(self.host.architecture))
        samples = min(int(spec.job.knobs["reference_samples"]), ready.samples)
        job = self._job(spec.job)
        key = key_of(job, ready, runtime, samples)
        if found := await self._known(key):
            return found
        async with self._quiet(on_progress):
            if found := await self._known(key):  # of another run meanwhile
                return found
            try:
                return await self._computed(key, job, ready, runtime, samples, on_progress)
            except WorkerFault as fault:
                if fault.failure.blame is Blame.WORKLOAD:
                    self._failed[key] = fault
                raise

    async def _known(self, key: str) -> Reference | None:
        """Return what is kept; raises WorkerFault if computing it failed before."""
        if key in self._failed:
            raise self._failed[key]
        return await asyncio.to_thread(self.kept.find, key)

    def _job(self, job: Job) -> Job:
        knobs = {**KNOBS, "threads": len(self.host.host_cores)}
        return job.model_copy(update={"scenario": "single_stream", "knobs": knobs})

    @asynccontextmanager
    async def _quiet(self, on_progress: Callable[[Progress], None]) -> AsyncIterator[None]:
        """Hold all of the host's cores; raises NotQuietError."""
        cores = exclusive_cores(self.host.host_cores, on_wait=as_progress(on_progress))
        try:
            async with asyncio.timeout(self.wait_s) as patience, self._computing, cores:
                patience.reschedule(None)
                yield
        except TimeoutError as error:
            seen = f"the host's cores were in use for {self.wait_s:g} s"
            raise NotQuietError(seen) from error

    async def _computed(
        self,
        key: str,
        job: Job,
        ready: Ready,
        runtime: Runtime,
        samples: int,
        on_progress: Callable[[Progress], None],
    ) -> Reference:
        bundle = (await self.remote.push_tree(runtime.tree)).path
        folder = bundle.parent / RUNS / f"{PHASE}-{key}"
        told = _spec(job, ready, PurePosixPath(ready.folder.absolute() / DEVICE), folder, samples)
        seconds = (self.compute_s, self.compute_s)
        async with run_folder(self.remote, folder):
            await write_spec(self.remote, folder / "spec.json", told)
            made = await run_runner(
                self.remote, bundle, folder / "spec.json", seconds, _as_reference(on_progress)
            )
            await self.remote.pull(folder / ANSWERS, self.kept.emptied(key))
        return await asyncio.to_thread(self.kept.keep, key, said_of(made), samples)


def key_of(job: Job, ready: Ready, runtime: Runtime, samples: int) -> str:
    """Return the digest of all that answers depend on: files, runtime with its runner, settings."""
    nowhere = PurePosixPath(".")
    settings = _spec(job, ready, nowhere, nowhere, samples)
    return digest([ready.tree.digest, runtime.tree.digest, settings], 32)


def said_of(made: Result) -> str:
    """Return by what a reference was computed."""
    facts = made.environment
    runtime = str(facts["runtime"])
    how = f"{facts['machine']}, delegate {facts['delegate']}"
    return f"{runtime} {facts[runtime]} on its host ({how})"


def _spec(
    job: Job, ready: Ready, files: PurePosixPath, logs: PurePosixPath, samples: int
) -> dict[str, object]:
    return runner_spec(job, ready, files, logs, "accuracy") | {"first_samples": samples}


def _as_reference(on_progress: Callable[[Progress], None]) -> Callable[[Progress], None]:
    """Return a callback that reports progress as a reference's, without the values of a run."""
    return lambda said: on_progress(Progress(phase=PHASE, done=said.done, total=said.total))
