"""Which runner gets a job: by its program, and by its scenario."""

from __future__ import annotations

from collections.abc import Callable
from typing import cast

import pytest

from agents.attempts.assembly import RunnerByProgram
from agents.remotes.remote import Remote
from controller.contracts.catalog import load_catalog
from controller.contracts.result import Blame, Failure, Outcome
from controller.contracts.wire import Progress, WorkerSpec
from controller.scheduling.expansion import cells_of
from controller.scheduling.program import program_of
from tests.support import builders


class Named:
    """A runner that only says that it was chosen."""

    def __init__(self, name: str) -> None:
        self._name = name

    async def run(self, spec: WorkerSpec, on_progress: Callable[[Progress], None]) -> Outcome:
        return Failure(blame=Blame.HARNESS, kind=self._name, message=spec.job.scenario)

    async def clean(self) -> int:
        return 0


@pytest.mark.parametrize(
    ("workload", "stack", "scenario", "runner"),
    [
        ("resnet50", "torch", "training", "training"),
        ("resnet50", "ipex", "single_stream", "queried"),
        ("resnet50", "torch-compile", "server", "queried"),
        ("kernels", "torch", "kernel", "training"),
        ("shapes_classifier", "litert", "offline", "on_device"),
    ],
)
async def test_the_runner_of_a_job(workload: str, stack: str, scenario: str, runner: str) -> None:
    catalog = load_catalog()
    sweep = builders.sweep(workload=workload, stack=stack, scenario=scenario)
    program = program_of(cells_of(sweep, catalog)[0], catalog)
    update = {"program": program, "scenario": scenario}
    job = builders.job().model_copy(update=update)
    spec = WorkerSpec(job=job, device=builders.cpu(), artefact_dir="")
    remote = cast("Remote", None)
    chosen = RunnerByProgram(Named("training"), Named("queried"), Named("on_device"), remote)
    outcome = await chosen.run(spec, lambda _: None)
    assert isinstance(outcome, Failure)
    assert outcome.kind == runner
