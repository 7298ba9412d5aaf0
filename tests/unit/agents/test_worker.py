"""The real worker, in a process of its own, with workloads of the tests' own."""

from __future__ import annotations

import subprocess
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

import psutil
import pytest

from agents.attempts.worker_process import WorkerProcess
from agents.stacks.interpreter import stack_worker
from agents.worker import failure_of
from controller.contracts.base import Scalar
from controller.contracts.errors import WorkerFault
from controller.contracts.result import Blame, Failure, Outcome, Result
from controller.contracts.wire import Progress, TrainingProgram, WorkerSpec
from controller.platform.programs import python_module
from kernels.library import KernelsUnusable
from tests.support import builders
from tests.support.knobs import job_knobs
from tests.support.processes import OWNER, wait_until_dead
from tests.support.validity import MET_RULES
from tests.support.waiting import PATIENCE_S

ROOT = Path(__file__).parents[3]


@pytest.fixture(autouse=True)
def _importable(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTHONPATH", str(ROOT))


def spec_of(folder: Path, workload: str, **knobs: Scalar) -> WorkerSpec:
    job = builders.job(deadline_s=PATIENCE_S).model_copy(
        update={
            "program": TrainingProgram(
                builder=f"tests.support.workloads:{workload}",
                arguments=knobs,
                backend="tests.support.workloads:Plain",
            ),
            "knobs": {**job_knobs(warmup_steps=1, steps=2, threads=1), **knobs},
        }
    )
    return WorkerSpec(job=job, device=builders.cpu(), artefact_dir=str(folder))


@dataclass
class Done:
    outcome: Outcome
    progress: list[Progress] = field(default_factory=list)


async def done(folder: Path, workload: str, **knobs: Scalar) -> Done:
    progress: list[Progress] = []
    spec = spec_of(folder, workload, **knobs)
    return Done(
        await WorkerProcess(OWNER, partial(stack_worker, folder)).run(spec, progress.append),
        progress,
    )


async def test_trains_and_says_what_it_measured(tmp_path: Path) -> None:
    ended = await done(tmp_path, "Line", batch_size=8)
    assert isinstance(ended.outcome, Result)
    assert ended.outcome.validity in MET_RULES
    assert len(ended.outcome.metrics["step_time"].samples) == 2
    assert (ended.progress[-1].done, ended.progress[-1].total) == (3, 3)


async def test_what_libraries_print_is_no_message(tmp_path: Path) -> None:
    ended = await done(tmp_path, "Talkative")
    assert isinstance(ended.outcome, Result)
    log = (tmp_path / "output.log").read_text()
    assert "Loading weights" in log
    assert "from native code" in log


async def test_an_exception_is_the_workloads_fault_in_one_line(tmp_path: Path) -> None:
    failure = (await done(tmp_path, "Broken", how="broken")).outcome
    assert isinstance(failure, Failure)
    assert (failure.blame, failure.kind) == (Blame.WORKLOAD, "exception")
    assert failure.message == "ValueError: it is broken"
    assert "Traceback" in failure.output


@pytest.mark.parametrize(
    ("error", "blame", "kind"),
    [
        (MemoryError(), Blame.WORKLOAD, "out_of_memory"),
        (
            RuntimeError("DefaultCPUAllocator: can't allocate memory"),
            Blame.WORKLOAD,
            "out_of_memory",
        ),
        (AttributeError("no such builder"), Blame.WORKLOAD, "exception"),
        (KernelsUnusable("nms has no dtype bf16: fp32"), Blame.USER, "setup"),
        (WorkerFault(builders.failure(Blame.USER)), Blame.USER, "exit"),
    ],
)
def test_who_is_to_blame_for_an_exception(error: Exception, blame: Blame, kind: str) -> None:
    failure = failure_of(error)
    assert (failure.blame, failure.kind) == (blame, kind)


def test_a_message_without_end_is_cut() -> None:
    assert len(failure_of(ValueError("x" * 10_000)).message) <= 500


def test_ends_with_its_children_when_the_agent_is_gone(tmp_path: Path) -> None:
    worker = subprocess.Popen(
        python_module("agents.worker"),
        stdin=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        start_new_session=True,
    )
    with worker:
        assert worker.stdin is not None
        assert worker.stderr is not None
        worker.stdin.write(spec_of(tmp_path, "Stuck").model_dump_json().encode() + b"\n")
        worker.stdin.flush()
        child = psutil.Process(int(worker.stderr.readline()))
        worker.stdin.close()  # as the kernel does when the agent dies
        assert worker.wait(PATIENCE_S) < 0
        wait_until_dead(child)
