"""The transport of a CPU host: its cores to itself, its conditions recorded with the result."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from agents.android.command_run import DeviceRun
from agents.android.content import Content
from agents.energy.meter import Meter
from agents.energy.metered import metered
from agents.host.conditions import environment_of, read_conditions
from agents.host.cores import as_progress, exclusive_cores
from agents.pairing.transport import alternating, turn_taking
from agents.profiling.transport import Profiled
from agents.stacks.interpreter import stack_worker
from agents.transports.local import LocalProcess
from agents.transports.local_remote import LocalRemote
from agents.transports.protocol import Transport
from agents.transports.remote import Remote
from controller.contracts.result import Outcome, Result
from controller.contracts.wire import Progress, TrainingProgram, WorkerSpec


@dataclass(frozen=True, slots=True)
class ByProgram:
    """Chooses the transport that a job's program is for."""

    training: Transport
    on_device: Transport
    remote: Remote
    """Where the second runs."""

    async def run(self, spec: WorkerSpec, on_progress: Callable[[Progress], None]) -> Outcome:
        """See Transport.run."""
        training = isinstance(spec.job.program, TrainingProgram)
        return await (self.training if training else self.on_device).run(spec, on_progress)

    async def clean(self) -> int:
        """See Transport.clean."""
        return await self.training.clean() + await self.remote.clean()


def host_transport(
    owner: str, folder: Path, content: Content, stacks: Path, meter: Meter | None = None
) -> ByProgram:
    """Return what runs jobs on this host: workers, and the runtime that phones run, too.

    stacks: the folder of the stacks' environments. meter: the user's own, beside each run.
    """
    remote = LocalRemote.of(folder / "device", owner)
    workers = LocalProcess(owner, partial(stack_worker, stacks))
    on_device = metered(DeviceRun(lambda _: remote, content), meter, lambda _: remote)
    timed = metered(turn_taking(workers), meter, lambda _: remote)
    training = Profiled(timed, workers, folder / "peaks")
    return ByProgram(training, alternating(on_device), remote)


@dataclass(frozen=True, slots=True)
class CpuHost:
    """Runs a job through another transport while no other run measures on the same cores."""

    process: Transport

    async def run(self, spec: WorkerSpec, on_progress: Callable[[Progress], None]) -> Outcome:
        """See Transport.run."""
        async with exclusive_cores(spec.device.host_cores, on_wait=as_progress(on_progress)):
            before = read_conditions()
            outcome = await self.process.run(spec, on_progress)
            after = read_conditions()
        if not isinstance(outcome, Result):
            return outcome
        host = {**spec.device.facts, **environment_of(before, after)}
        return outcome.model_copy(update={"environment": {**host, **outcome.environment}})

    async def clean(self) -> int:
        """See Transport.clean."""
        return await self.process.clean()
