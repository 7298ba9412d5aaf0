"""Launch settings as a real worker finds them."""

from __future__ import annotations

import os
from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest

from agents.attempts.worker_process import WorkerProcess
from agents.host.tools import LIBRARIES, read_host_tools
from agents.stacks.interpreter import stack_worker
from controller.contracts.base import Scalar
from controller.contracts.result import Blame, Environment, Failure, Outcome, Result
from controller.contracts.wire import TrainingProgram, WorkerSpec
from tests.support import builders
from tests.support.knobs import job_knobs
from tests.support.processes import OWNER

ROOT = Path(__file__).parents[3]
CORES = frozenset(os.sched_getaffinity(0))
TOOLS = read_host_tools()


@pytest.fixture(autouse=True)
def _importable(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTHONPATH", str(ROOT))


def needs(*libraries: str) -> None:
    for name in libraries:
        if name not in TOOLS.libraries:
            pytest.skip(f"{LIBRARIES[name].soname} is not here: {LIBRARIES[name].remedy}")


async def outcome_of(folder: Path, workload: str, **knobs: Scalar) -> Outcome:
    spec = builders.worker_spec(str(folder), deadline_s=200)
    program = TrainingProgram(
        builder=f"tests.support.workloads:{workload}",
        arguments={},
        backend="agents.backends.torch_eager.backend:TorchEager",
    )
    own: dict[str, Scalar] = {"precision": "fp32", "memory_format": "contiguous"}
    steps = job_knobs(warmup_steps=0, steps=1, malloc="glibc")
    job = spec.job.model_copy(update={"program": program, "knobs": {**own, **steps, **knobs}})
    spec = WorkerSpec(job=job, device=builders.cpu(cores=CORES), artefact_dir=str(folder))
    worker = WorkerProcess(OWNER, partial(stack_worker, folder))
    return await worker.run(spec, lambda _: None)


async def environment_of(folder: Path, workload: str, **knobs: Scalar) -> Environment:
    outcome = await outcome_of(folder, workload, **knobs)
    assert isinstance(outcome, Result), outcome
    return outcome.environment


async def test_jemalloc_on_one_core_with_huge_pages(tmp_path: Path) -> None:
    needs("jemalloc")
    if TOOLS.huge_pages not in ("always", "madvise"):
        pytest.skip(f"transparent huge pages are {TOOLS.huge_pages}")
    core = min(CORES)
    found = await environment_of(
        tmp_path, "Large", malloc="jemalloc", huge_pages=True, cores=str(core)
    )
    assert found["malloc"] == "libjemalloc.so.2"
    assert found["affinity"] == (core,)
    assert found["threads"] == 1
    # 64 MiB were asked for; the kernel may have no huge page for some of it.
    assert int(str(found["huge_page_bytes"])) >= 2**21


async def test_onednn_leaves_amx_alone_where_it_is_unusable(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    hollow = replace(TOOLS, isa_unusable=("amx_bf16", "amx_tile"))
    monkeypatch.setattr("agents.attempts.worker_process.read_host_tools", lambda _: hollow)
    found = await environment_of(tmp_path, "Line")
    assert "AMX" not in str(found["onednn_isa"])
    assert isinstance(found["settings"], tuple)
    assert "ONEDNN_MAX_CPU_ISA=AVX512_CORE_FP16" in found["settings"]


async def test_tcmalloc_and_llvm_s_openmp_with_threads_bound(tmp_path: Path) -> None:
    needs("tcmalloc", "llvm")
    found = await environment_of(
        tmp_path, "Line", malloc="tcmalloc", openmp="llvm", thread_binding="close"
    )
    assert str(found["malloc"]).startswith("libtcmalloc_minimal.so.4")
    openmp, settings = found["openmp"], found["settings"]
    assert isinstance(openmp, tuple)
    assert isinstance(settings, tuple)
    assert any(str(name).startswith("libomp") for name in openmp)
    assert {"OMP_PROC_BIND=close", "KMP_BLOCKTIME=1"} <= set(settings)
    assert found["threads"] == len(CORES)


async def test_what_is_recorded_by_default(tmp_path: Path) -> None:
    found = await environment_of(tmp_path, "Line")
    assert str(found["malloc"]).startswith("glibc 2.")
    assert found["affinity"] == tuple(sorted(CORES))
    assert found["onednn"] is not None
    assert found["onednn_isa"] is not None
    packages = found["packages"]
    assert isinstance(packages, tuple)
    assert {str(p).partition("==")[0] for p in packages} >= {"torch", "numpy", "pydantic"}


async def test_a_workload_that_asks_for_too_much_memory(tmp_path: Path) -> None:
    failure = await outcome_of(tmp_path, "Greedy")
    assert isinstance(failure, Failure)
    assert (failure.blame, failure.kind) == (Blame.WORKLOAD, "out_of_memory")
    assert "can't allocate memory" in failure.message
    assert "\n" not in failure.message


async def test_a_worker_is_ended_before_all_else_when_memory_runs_out(tmp_path: Path) -> None:
    failure = await outcome_of(tmp_path, "Scored")
    assert isinstance(failure, Failure)
    assert failure.message == "ValueError: 1000"


async def test_settings_that_cannot_be_given_start_nothing(tmp_path: Path) -> None:
    failure = await outcome_of(tmp_path, "Line", threads=len(CORES) + 1)
    assert isinstance(failure, Failure)
    assert (failure.blame, failure.kind) == (Blame.USER, "launch")
    assert not (tmp_path / "output.log").exists()
