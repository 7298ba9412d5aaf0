"""Training by ranks, each a real process that a real worker starts."""

from __future__ import annotations

import os
from functools import partial
from pathlib import Path

import pytest

from agents.attempts.worker_process import WorkerProcess
from agents.stacks.interpreter import stack_worker
from controller.contracts.base import Scalar
from controller.contracts.result import Blame, Failure, Outcome, Result
from controller.contracts.wire import TrainingProgram, WorkerSpec
from tests.support import builders
from tests.support.knobs import job_knobs
from tests.support.processes import OWNER

ROOT = Path(__file__).parents[3]
CORES = frozenset(os.sched_getaffinity(0))


@pytest.fixture(autouse=True)
def _importable(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTHONPATH", str(ROOT))


async def outcome_of(folder: Path, workload: str, batch_size: int = 4, **knobs: Scalar) -> Outcome:
    program = TrainingProgram(
        builder=f"tests.support.workloads:{workload}",
        arguments={"batch_size": batch_size},
        backend="tests.support.workloads:Plain",
    )
    job = builders.job(deadline_s=100).model_copy(
        update={"program": program, "knobs": job_knobs(warmup_steps=1, steps=4, **knobs)}
    )
    spec = WorkerSpec(job=job, device=builders.cpu(cores=CORES), artefact_dir=str(folder))
    return await WorkerProcess(OWNER, partial(stack_worker, folder)).run(spec, lambda _: None)


async def test_ranks_train_as_one_process_does(tmp_path: Path) -> None:
    one, two = [
        await outcome_of(tmp_path, "Shared", ranks=ranks, threads=1) for ranks in (1, 2)
    ]
    assert isinstance(one, Result), one
    assert isinstance(two, Result), two
    # fp32: only the order of the sums over the batch differs, by about 1e-7 of them a step.
    assert two.metrics["loss"].samples == pytest.approx(one.metrics["loss"].samples, rel=1e-5)
    assert len(two.metrics["step_time"].samples) == 4
    print(two.environment, two.metrics)
    assert 0
