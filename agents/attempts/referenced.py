"""The attempt runner that compares a device's answers with those of the host's own runtime."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from agents.attempts.protocol import AttemptRunner
from agents.attempts.reference_run import NotQuietError, ReferenceRuns
from agents.inference.content import compare_answers
from agents.inference.reference_result import with_reference, without_reference
from agents.remotes.remote import RemoteFault
from controller.contracts.audit import audit_of
from controller.contracts.errors import UserError, WorkerFault
from controller.contracts.result import Outcome, Result
from controller.contracts.wire import OnDeviceProgram, Progress, WorkerSpec

ANSWERS: Final = "accuracy_loadgen_accuracy"
"""The artefact with a device's answers."""


@dataclass(frozen=True, slots=True)
class ReferencedRunner:
    """Runs a job through another runner; then compares its answers with a reference's.

    By then the other runner has let go of device and cores, and has read the device's conditions.
    """

    inner: AttemptRunner
    references: ReferenceRuns

    async def run(self, spec: WorkerSpec, on_progress: Callable[[Progress], None]) -> Outcome:
        """See AttemptRunner.run; a reference that can't be computed takes no result away."""
        outcome = await self.inner.run(spec, on_progress)
        program = spec.job.program
        if not isinstance(outcome, Result) or not isinstance(program, OnDeviceProgram):
            return outcome
        if ANSWERS not in outcome.artefacts:  # no accuracy run, or a paired comparison
            return outcome
        if audit_of(spec.job.knobs):
            return without_reference(outcome, "the run is an audit of another")
        if not spec.job.knobs["reference_samples"]:
            return without_reference(outcome, "reference_samples is 0")
        began = time.monotonic()
        result = await self._compared(spec, program, outcome, on_progress)
        facts = {"reference_s": round(time.monotonic() - began, 3)}
        return result.model_copy(update={"environment": {**result.environment, **facts}})

    async def _compared(
        self,
        spec: WorkerSpec,
        program: OnDeviceProgram,
        result: Result,
        on_progress: Callable[[Progress], None],
    ) -> Result:
        runs = self.references
        limit = asyncio.timeout(runs.most_s)
        try:
            async with limit:
                ready = await runs.task(spec, program)
                found = await runs.answers(spec, program, ready, on_progress)
                answers, expected = Path(result.artefacts[ANSWERS]), runs.kept.path(found.key)
                compared = await compare_answers(ready, answers, expected, found.samples)
        except WorkerFault as fault:
            return without_reference(result, fault.failure.message)
        except (RemoteFault, UserError, NotQuietError, OSError) as error:
            late = f"it took longer than {runs.most_s:g} s"
            return without_reference(result, late if limit.expired() else str(error))
        return with_reference(result, compared, found.by)

    async def clean(self) -> int:
        """See AttemptRunner.clean."""
        return await self.inner.clean()
