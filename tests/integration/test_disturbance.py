"""A run beside real other load: INVALID under policy lab, DISTURBED under ci, with the figures."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path

import pytest

from agents.attempts.worker_process import WorkerProcess
from agents.stacks.interpreter import stack_worker
from controller.contracts.result import Result, Validity
from controller.contracts.wire import TrainingProgram, WorkerSpec
from tests.support import builders
from tests.support.knobs import job_knobs
from tests.support.processes import OWNER

pytestmark = [pytest.mark.integration, pytest.mark.alone]
ROOT = Path(__file__).parents[2]


@contextmanager
def all_cores_busy() -> Iterator[None]:
    processes = [
        subprocess.Popen([sys.executable, "-c", "while True: pass"])
        for _ in os.sched_getaffinity(0)
    ]
    try:
        yield
    finally:
        for process in processes:
            process.kill()
            process.wait()


async def measured(folder: Path, policy: str) -> Result:
    """Train for a second or more, so that ticks of 10 ms are fine enough."""
    program = TrainingProgram(
        builder="tests.support.workloads:Line",
        arguments={},
        backend="tests.support.workloads:Plain",
    )
    knobs = job_knobs(warmup_steps=10, steps=5000, threads=1, policy=policy)
    job = builders.job().model_copy(update={"program": program, "knobs": knobs})
    spec = WorkerSpec(job=job, device=builders.cpu(), artefact_dir=str(folder))
    outcome = await WorkerProcess(OWNER, partial(stack_worker, folder)).run(spec, lambda _: None)
    assert isinstance(outcome, Result), outcome
    return outcome


async def test_a_disturbed_run_is_invalid_under_lab_and_disturbed_under_ci(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    with all_cores_busy():
        lab, ci = await measured(tmp_path, "lab"), await measured(tmp_path, "ci")
    for result in (lab, ci):
        kept = result.environment["timed_other_cores"]
        assert isinstance(kept, float)
        assert kept > 0.5, "others had half of the time of one core, and what it left"
    assert lab.validity is Validity.INVALID
    assert lab.reasons[0].startswith("other processes kept ")
    assert "policy lab allows 0.15" in lab.reasons[0]
    assert ci.validity is Validity.DISTURBED
    assert "policy ci allows 0.5" in ci.reasons[0]
