"""Training by ranks, each a real process that a real worker starts."""

from __future__ import annotations

import os
import signal
import subprocess
from functools import partial
from pathlib import Path

import psutil
import pytest
import torch

from agents.attempts.worker_process import WorkerProcess
from agents.backends.stepping import OneProcess
from agents.backends.torch_eager.backend import TorchEager
from agents.stacks.interpreter import stack_worker
from controller.contracts.result import Result
from controller.contracts.wire import TrainingProgram, WorkerSpec
from controller.platform.programs import python_code
from models.language import LstmTraining
from tests.support import builders
from tests.support.knobs import job_knobs, workload_arguments
from tests.support.processes import OWNER, wait_until_dead

ROOT = Path(__file__).parents[3]
CORES = sorted(os.sched_getaffinity(0))[:2]
BATCH = 4
STEPS = 4
ARGUMENTS = workload_arguments(
    "lstm",
    layers=1,
    hidden_size=64,
    sequence_length=12,
    vocabulary_size=50,
    batch_size=BATCH,
    optimizer="sgd",
)
STACK = {"precision": "fp32", "memory_format": "contiguous"}


def losses_of_one_process(threads: int) -> list[float]:
    backend = TorchEager(STACK)
    before = torch.get_num_threads()
    torch.set_num_threads(threads)
    try:
        alone = OneProcess(LstmTraining(**ARGUMENTS), backend)
        alone.start()
        losses = []
        for number in range(STEPS):
            alone.load(number)
            losses.append(alone.step())
        return losses
    finally:
        torch.set_num_threads(before)


async def test_ranks_train_as_one_process_does(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if len(CORES) < 2:
        pytest.skip("two ranks need two cores")
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    program = TrainingProgram(
        builder="models.language:LstmTraining",
        arguments=ARGUMENTS,
        backend="agents.backends.torch_eager.backend:TorchEager",
    )
    knobs = job_knobs(warmup_steps=0, steps=STEPS, ranks=2, threads=1, **STACK)
    job = builders.job(deadline_s=200).model_copy(update={"program": program, "knobs": knobs})
    device = builders.cpu(cores=frozenset(CORES))
    spec = WorkerSpec(job=job, device=device, artefact_dir=str(tmp_path))
    found = await WorkerProcess(OWNER, partial(stack_worker, tmp_path)).run(spec, lambda _: None)

    assert isinstance(found, Result), found
    losses = found.metrics["loss"].samples
    # fp32: only the order of the sums over a batch differs, by about 1e-7 of them a step.
    assert losses == pytest.approx(losses_of_one_process(threads=1), rel=1e-5)
    assert losses == pytest.approx(losses_of_one_process(threads=2), rel=1e-5)
    seconds = found.metrics["step_time"].samples
    assert found.metrics["throughput"].samples == tuple(BATCH / each for each in seconds)
    facts = found.environment
    assert (facts["ranks"], facts["affinity"]) == (2, tuple(CORES))
    assert facts["rank_cores"] == tuple(map(str, CORES))
    for share in ("all_reduce_share", "rank_imbalance"):
        assert 0 <= float(str(facts[share])) < 1
    # Two processes with torch in them; one has about 250 MB.
    assert found.metrics["peak_memory"].value > 300e6
    assert [path.name for path in tmp_path.iterdir()] == ["output.log"]


def test_a_stopped_process_ends_with_its_parent() -> None:
    code = (
        "import subprocess, sys; from agents.host.parent import end_with_parent as e\n"
        "child = ['-c', 'import os,signal; from agents.host.parent import end_with_parent as e;'"
        " ' e(); print(os.getpid(), flush=True); os.kill(0 or os.getpid(), signal.SIGSTOP)']\n"
        "subprocess.Popen([sys.executable, *child]).wait()"
    )
    with subprocess.Popen(
        python_code(code), stdout=subprocess.PIPE, text=True, env={"PYTHONPATH": str(ROOT)}
    ) as parent:
        assert parent.stdout
        child = psutil.Process(int(parent.stdout.readline()))
        parent.kill()
        parent.wait()
        try:
            wait_until_dead(child)
        finally:
            if child.is_running():
                child.send_signal(signal.SIGKILL)
