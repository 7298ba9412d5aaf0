"""The attempt runner that holds a CPU host's cores and records its conditions."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from agents.attempts.protocol import AttemptRunner
from agents.host.conditions import environment_of, read_conditions
from agents.host.cores import as_progress, exclusive_cores
from controller.contracts.result import Outcome, Result
from controller.contracts.wire import Progress, WorkerSpec


@dataclass(frozen=True, slots=True)
class ExclusiveHostRunner:
    """Runs a job through another runner while no other run measures on the same cores."""

    process: AttemptRunner

    async def run(self, spec: WorkerSpec, on_progress: Callable[[Progress], None]) -> Outcome:
        """See AttemptRunner.run."""
        async with exclusive_cores(spec.device.host_cores, on_wait=as_progress(on_progress)):
            before = read_conditions()
            outcome = await self.process.run(spec, on_progress)
            after = read_conditions()
        if not isinstance(outcome, Result):
            return outcome
        host = {**spec.device.facts, **environment_of(before, after)}
        return outcome.model_copy(update={"environment": {**host, **outcome.environment}})

    async def clean(self) -> int:
        """See AttemptRunner.clean."""
        return await self.process.clean()
