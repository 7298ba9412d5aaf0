"""Training by ranks, each a real process that a real worker starts."""

from __future__ import annotations

import asyncio
import os
import signal
import socket
import subprocess
from datetime import timedelta
from functools import partial
from pathlib import Path
from typing import Any

import psutil
import pytest
import torch
from torch import distributed

from agents.attempts.worker_process import WorkerProcess
from agents.backends.stepping import OneProcess
from agents.backends.torch_eager.backend import TorchEager
from agents.ranks.contention import ROUNDS
from agents.ranks.meeting import join
from agents.stacks.interpreter import stack_worker
from controller.contracts.base import Scalar
from controller.contracts.errors import WorkerFault
from controller.contracts.result import Blame, Failure, Result
from controller.contracts.wire import (
    HostShare,
    RankPlace,
    TrainingHost,
    TrainingProgram,
    WorkerSpec,
)
from controller.platform.ports import free_ports
from controller.platform.processes import WORKER_MARKER, marked_processes
from controller.platform.programs import python_code
from controller.reports.views.rows import SCALING_LOSSES
from models.language import LstmTraining
from tests.support import builders
from tests.support.knobs import job_knobs, workload_arguments
from tests.support.processes import OWNER, is_dead, wait_until_dead
from tests.support.waiting import eventually

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
    # Another process may disturb the steps of the efficiency: by this policy, that is not judged.
    knobs = job_knobs(warmup_steps=0, steps=STEPS, ranks=2, threads=1, policy="mlperf", **STACK)
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
    assert facts["denormal_share"] == 0.0, "told as of one process"
    for share in ("all_reduce_share", "rank_imbalance"):
        assert 0 <= float(str(facts[share])) < 1
    efficiency = found.metrics["scaling_efficiency"]
    lost = [float(str(facts[share])) for share in SCALING_LOSSES]
    assert efficiency.value + sum(lost) == pytest.approx(1.0, abs=1e-3)
    assert len(efficiency.samples) == ROUNDS
    # Two processes with torch in them; one has about 250 MB.
    assert found.metrics["peak_memory"].value > 300e6
    assert [path.name for path in tmp_path.iterdir()] == ["output.log"]


def share(index: int, port: int) -> HostShare:
    """Return one of two shares; both hosts are this one."""
    hosts = tuple(
        TrainingHost(device_id=f"cpu-{name}", name=name, address="127.0.0.1") for name in "ab"
    )
    return HostShare(index=index, hosts=hosts, port=port)


def spec_of(folder: Path, index: int, port: int, **knobs: Scalar) -> WorkerSpec:
    """Return what one of two hosts trains, of two ranks."""
    program = TrainingProgram(
        builder="models.language:LstmTraining",
        arguments=ARGUMENTS,
        backend="agents.backends.torch_eager.backend:TorchEager",
    )
    given = job_knobs(warmup_steps=0, steps=STEPS, ranks=2, hosts=2, threads=1, **STACK)
    changed = {"program": program, "knobs": {**given, **knobs}}
    job = builders.job(deadline_s=200).model_copy(update={**changed, "share": share(index, port)})
    (artefacts := folder / str(index)).mkdir()
    device = builders.cpu(cores=frozenset(CORES[:1]))
    return WorkerSpec(job=job, device=device, artefact_dir=str(artefacts))


async def test_ranks_on_two_hosts_train_as_one_process_does(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    (port,) = free_ports(1, "127.0.0.1")
    specs = [spec_of(tmp_path, index, port) for index in (0, 1)]
    runners = [WorkerProcess(f"{OWNER}-{i}", partial(stack_worker, tmp_path)) for i in (0, 1)]
    lead, other = await asyncio.gather(
        *(runner.run(spec, lambda _: None) for runner, spec in zip(runners, specs, strict=True))
    )
    assert isinstance(lead, Result), lead
    assert isinstance(other, Result), other
    # fp32: only the order of the sums over a batch differs, by about 1e-7 of them a step.
    expected = pytest.approx(losses_of_one_process(threads=1), rel=1e-5)
    assert lead.metrics["loss"].samples == expected
    assert other.metrics["loss"].samples == expected, "each host knows the loss of all"
    assert lead.environment["ranks"] == 2
    assert lead.environment["hosts"] == ("a", "b")
    assert lead.environment["host_devices"] == ("cpu-a", "cpu-b")
    computed = lead.environment["rank_compute_s"]
    assert isinstance(computed, tuple)
    assert len(computed) == 2
    assert lead.metrics["peak_memory"].value > 300e6, "of two processes with torch in them"


@pytest.mark.parametrize("index", [0, 1])
def test_a_host_that_meets_no_other_is_the_harness_s(tmp_path: Path, index: int) -> None:
    """It waits for its cores, for which this one's may be waited for, or can't be reached."""
    (port,) = free_ports(1, "127.0.0.1")
    place = RankPlace(rank=index, ranks=2, meeting_point=str(tmp_path / "store"), local=1)
    with pytest.raises(WorkerFault) as caught:
        join(place, share(index, port), deadline_s=200, meeting_s=2)
    failure = caught.value.failure
    assert (failure.blame, failure.kind) == (Blame.HARNESS, "rendezvous")
    assert f"the hosts a, b did not meet within 2 s at 127.0.0.1, port {port}" in failure.message


LISTENS = """
import sys
import psutil
from torch import distributed
from agents.ranks.meeting import join
from controller.contracts.wire import HostShare, RankPlace
share = HostShare.model_validate_json(sys.argv[1])
join(RankPlace(rank=share.index, ranks=2, meeting_point="", local=1), share, 200.0)
found = psutil.Process().net_connections()
print(*sorted({each.laddr.ip for each in found if each.status == "LISTEN"}), end="")
distributed.barrier()
distributed.destroy_process_group()
"""


def test_ranks_listen_at_the_address_of_their_host_only() -> None:
    """An interface may have several, of which gloo by itself takes the first."""
    (port,) = free_ports(1, "127.0.0.2")
    addresses = ("127.0.0.2", "127.0.0.3")
    hosts = tuple(TrainingHost(device_id=each, name=each, address=each) for each in addresses)
    shares = [HostShare(index=index, hosts=hosts, port=port) for index in (0, 1)]
    environ = {"PYTHONPATH": str(ROOT), "GLOO_SOCKET_IFNAME": "lo"}
    programs = [
        subprocess.Popen(
            [*python_code(LISTENS), one.model_dump_json()],
            stdout=subprocess.PIPE,
            text=True,
            env=environ,
        )
        for one in shares
    ]
    assert [program.communicate()[0] for program in programs] == list(addresses)


@pytest.mark.parametrize("index", [0, 1])
def test_a_short_deadline_leaves_time_to_tell_of_it(tmp_path: Path, index: int) -> None:
    (port,) = free_ports(1, "127.0.0.1")
    place = RankPlace(rank=index, ranks=2, meeting_point=str(tmp_path / "store"), local=1)
    with pytest.raises(WorkerFault, match="did not meet within 1 s"):
        join(place, share(index, port), deadline_s=2)


class LonelyStore:
    """One whose first rank never meets the others; keeps the limits it was given."""

    def __init__(self) -> None:
        self.limits: list[timedelta] = []

    def __call__(self, *arguments: Any, **_: object) -> LonelyStore:  # noqa: ANN401
        self.limits.append(arguments[-1])
        return self

    def wait(self, _: list[str], limit: timedelta) -> None:
        self.limits.append(limit)
        raise RuntimeError("nobody came")


def test_torch_waits_for_no_listener(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It does up to twice as long as it may, so that the run's deadline would come first."""
    monkeypatch.setattr(distributed, "TCPStore", store := LonelyStore())
    (port,) = free_ports(1, "127.0.0.1")
    place = RankPlace(rank=1, ranks=2, meeting_point=str(tmp_path / "store"), local=1)
    with pytest.raises(WorkerFault, match="did not meet within 1 s"):
        join(place, share(1, port), deadline_s=2)
    assert not store.limits


def test_a_late_connection_has_what_is_left(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(distributed, "TCPStore", store := LonelyStore())
    connect, refusals = socket.create_connection, [ConnectionRefusedError()]

    def late(*arguments: Any) -> socket.socket:  # noqa: ANN401
        if refusals:
            raise refusals.pop()
        return connect(*arguments)

    monkeypatch.setattr(socket, "create_connection", late)
    place = RankPlace(rank=1, ranks=2, meeting_point=str(tmp_path / "store"), local=1)
    with (
        socket.create_server(("127.0.0.1", 0)) as listener,
        pytest.raises(WorkerFault, match="nobody came"),
    ):
        join(place, share(1, listener.getsockname()[1]), deadline_s=200)
    built, met = store.limits
    assert met <= built < timedelta(seconds=100), "half the deadline, less one look"


async def test_a_host_that_loses_another_waits_to_be_ended(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Only the other one's failure tells why; the controller ends the run with that."""
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    (port,) = free_ports(1, "127.0.0.1")
    specs = [spec_of(tmp_path, index, port, steps=1_000_000) for index in (0, 1)]
    runners = [WorkerProcess(f"{OWNER}-{i}", partial(stack_worker, tmp_path)) for i in (0, 1)]
    trains = asyncio.Event()
    lead = asyncio.create_task(runners[0].run(specs[0], lambda _: trains.set()))
    other = asyncio.create_task(runners[1].run(specs[1], lambda _: None))
    await trains.wait()
    (killed,) = ranks_of(f"{OWNER}-1")
    killed.kill()
    failure = await other
    assert isinstance(failure, Failure)
    assert failure.message == "rank 1 of 2 ended with SIGKILL"
    await asyncio.to_thread(
        eventually, lambda: not ranks_of(f"{OWNER}-0"), "the ranks of the other host have ended"
    )
    assert not lead.done()
    lead.cancel()
    with pytest.raises(asyncio.CancelledError):
        await lead
    assert list(marked_processes(WORKER_MARKER, f"{OWNER}-0")) == []


def ranks_of(owner: str) -> list[psutil.Process]:
    """Return the live ranks of a worker: its children."""
    found = list(marked_processes(WORKER_MARKER, owner))
    pids = {process.pid for process in found}
    return [process for process in found if not is_dead(process) and process.ppid() in pids]


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
