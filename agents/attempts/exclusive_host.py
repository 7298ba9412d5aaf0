"""The attempt runner that holds a CPU host's cores and records its conditions."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass

from agents.attempts.protocol import AttemptRunner
from agents.host.conditions import environment_of, read_conditions
from agents.host.cores import as_progress, exclusive_cores
from agents.host.cpu_lists import format_cpus
from controller.contracts.device import Device
from controller.contracts.result import Blame, Failure, Outcome, Result
from controller.contracts.wire import Progress, WorkerSpec


@dataclass(frozen=True, slots=True)
class ExclusiveHostRunner:
    """Runs a job through another runner while no other run measures on the same cores."""

    process: AttemptRunner

    async def run(self, spec: WorkerSpec, on_progress: Callable[[Progress], None]) -> Outcome:
        """See AttemptRunner.run; a Failure if the device's cores are no longer all there."""
        cores = spec.device.host_cores
        if failed := _cores_changed(spec.device):  # a wait for them would be for nothing
            return failed
        async with exclusive_cores(cores, on_wait=as_progress(on_progress)):
            if failed := _cores_changed(spec.device):
                return failed
            before = read_conditions(cores)
            outcome = await self.process.run(spec, on_progress)
            after = read_conditions(cores)
        if not isinstance(outcome, Result):
            return outcome
        if failed := _cores_changed(spec.device):
            return failed
        host = {**spec.device.facts, **environment_of(before, after)}
        return outcome.model_copy(update={"environment": {**host, **outcome.environment}})

    async def clean(self) -> int:
        """See AttemptRunner.clean."""
        return await self.process.clean()


def _cores_changed(device: Device) -> Failure | None:
    """Return what is wrong if the agent may not use all its cores: jobs would crowd the others."""
    gone = device.host_cores - os.sched_getaffinity(0)
    if not gone:
        return None
    message = (
        f"cannot measure on device {device.id}: its agent may no longer use CPU "
        f"{format_cpus(gone)}, which was taken offline or out of the agent's cpuset. "
        "Restart the agent."
    )
    return Failure(blame=Blame.DEVICE, kind="cores_changed", message=message)
