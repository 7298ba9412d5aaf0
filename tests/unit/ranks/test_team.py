"""The worker's side of ranks, with ranks that are short scripts."""

from __future__ import annotations

import math
import os
import signal
import time
from pathlib import Path

import psutil
import pytest

from agents.backends.stepping import Stepping
from agents.host import cpu_watch
from agents.host.cpu_watch import CpuTimes, CpuWatch
from agents.host.strain import Reading, own_cores
from agents.ranks.contention import ROUNDS, rounds_for
from agents.ranks.member import require_shares
from agents.ranks.team import Team, lost_rank
from agents.scenarios import training
from controller.contracts.errors import WorkerFault
from controller.contracts.result import Blame, Failure
from controller.contracts.wire import StepBatch, WorkerSpec
from controller.platform.programs import python_code
from controller.reports.views.rows import SCALING_LOSSES
from models.language import LstmTraining
from models.resnet import Resnet18Training
from tests.support import builders
from tests.support.knobs import job_knobs, scenario_knobs, workload_arguments
from tests.support.processes import LOOK_S, is_dead
from tests.support.waiting import eventually
from tests.support.workloads import Line

CORES = frozenset(sorted(os.sched_getaffinity(0))[:2])

RANK = """
import json, os, signal, sys
spec = json.loads(sys.stdin.readline())
place = spec["rank"]
mine = place["rank"]
assert os.stat(os.path.dirname(place["meeting_point"])).st_mode & 0o777 == 0o700
assert os.environ["GLOO_SOCKET_IFNAME"] == "lo"
say = lambda **fields: print(json.dumps(fields), flush=True)
say(type="rank_ready", batch_size=4)
for line in sys.stdin:
    if json.loads(line)["steps"] == 0:
        break
    {step}
say(type="rank_end", environment={{"pid": os.getpid(), "rank": mine}},
    alone_s=[] if mine else [0.3, 0.4, 0.5], together_s=[0.5, 0.5, 0.5])
"""
STEP = """say(type="rank_step", loss=[1.0, 3.0][mine], seconds=1.0,
        computed_s=[0.4, 0.8][mine], exchanged_s=[0.5, 0.1][mine])"""

JUDGES_NO_SERVER = "mlperf"


def team(
    folder: Path,
    step: str = STEP,
    threads: int = 0,
    ranks: int = 2,
    rank: str = RANK,
    warmup_steps: int = 0,
    in_batches: bool = False,
    policy: str = JUDGES_NO_SERVER,
    watch: CpuWatch | None = None,
) -> Team:
    knobs = job_knobs(ranks=ranks, threads=threads, warmup_steps=warmup_steps, policy=policy)
    job = builders.job().model_copy(update={"knobs": knobs})
    spec = WorkerSpec(
        job=job,
        device=builders.cpu(cores=CORES),
        artefact_dir=str(folder),
        in_batches=in_batches,
    )
    return Team(spec, python_code(rank.format(step=step)), watch=watch)


def failure_of(ranks: Team) -> Failure:
    ranks.start()
    return failure_of_step(ranks)


def failure_of_step(ranks: Team) -> Failure:
    with pytest.raises(WorkerFault) as caught:
        ranks.step()
    assert "\n" not in caught.value.failure.message
    return caught.value.failure


pytestmark = pytest.mark.skipif(len(CORES) < 2, reason="two ranks need two cores")


def test_a_step_is_all_ranks(tmp_path: Path) -> None:
    ranks = team(tmp_path)
    assert isinstance(ranks, Stepping)
    ranks.start()
    assert ranks.batch_size == 4
    assert ranks.step() == 2.0, "the mean of the losses"
    assert ranks.cpu_s() > 0
    assert ranks.peak_memory_bytes() > 2 * 5e6  # two interpreters
    facts = ranks.environment()
    assert (facts["rank"], facts["ranks"]) == (0, 2)
    assert facts["all_reduce_share"] == 0.1, "rank 1 came last, so that it did not wait"
    assert facts["rank_imbalance"] == 0.4, "0.4 s, and the other one's 0.8 s, of 1.0 s"
    assert facts["contention_share"] == 0.1, "of what remains, the fifth that it is slower by"
    efficiency = ranks.scaling()["scaling_efficiency"]
    assert efficiency.samples == pytest.approx((0.3, 0.4, 0.5))
    lost = [float(str(facts[of])) for of in SCALING_LOSSES]
    assert efficiency.value + sum(lost) == pytest.approx(1.0)
    assert not list(tmp_path.iterdir())
    with pytest.raises(ProcessLookupError):
        os.kill(int(str(facts["pid"])), 0)


def test_warm_up_steps_are_in_no_figure(tmp_path: Path) -> None:
    """In them, one rank may compile or touch its memory first, and the other waits."""
    slow = STEP.replace("=1.0", "=3.2").replace("[0.4, 0.8][mine]", "[0.1, 3.0][mine]")
    slow = slow.replace("[0.5, 0.1][mine]", "[3.0, 0.1][mine]")
    both = f"first = 'first' not in globals()\n    ({slow}) if first else ({STEP})"
    ranks = team(tmp_path, both, warmup_steps=1)
    ranks.start()
    for _ in range(2):
        ranks.step()
    facts = ranks.environment()
    assert facts["rank_imbalance"] == 0.4
    assert facts["all_reduce_share"] == 0.1
    assert facts["rank_compute_s"] == (0.4, 0.8)
    assert ranks.scaling()["scaling_efficiency"].samples == pytest.approx((0.3, 0.4, 0.5))


def test_steps_of_a_comparison_have_no_warm_up(tmp_path: Path) -> None:
    ranks = team(tmp_path, warmup_steps=3, in_batches=True)
    ranks.start()
    ranks.step()
    assert ranks.environment()["rank_imbalance"] == 0.4


def test_ranks_are_not_pinned_as_the_thread_that_starts_them(tmp_path: Path) -> None:
    """OpenMP pins it to one core when torch is imported, with the knob thread_binding."""
    sees = RANK.replace('"rank": mine', '"seen": sorted(os.sched_getaffinity(0))')
    ranks = team(tmp_path, ranks=1, rank=sees)
    given = own_cores()
    os.sched_setaffinity(0, {min(given)})
    try:
        ranks.start()
        ranks.step()
        assert ranks.environment()["seen"] == tuple(sorted(given))
    finally:
        os.sched_setaffinity(0, given)


@pytest.mark.parametrize(
    ("step_s", "rounds"), [(0.01, ROUNDS), (6.0, ROUNDS), (6.1, ROUNDS - 1), (31.0, 0), (0.0, 0)]
)
def test_long_steps_have_fewer_rounds(step_s: float, rounds: int) -> None:
    assert rounds_for(step_s) == rounds


def test_what_was_not_measured_has_no_figure(tmp_path: Path) -> None:
    """As in a comparison, whose other side would wait."""
    bare = RANK.replace("alone_s=[] if mine else [0.3, 0.4, 0.5], ", "").replace(
        "together_s=[0.5, 0.5, 0.5]", ""
    )
    ranks = team(tmp_path, rank=bare)
    ranks.start()
    ranks.step()
    facts = ranks.environment()
    assert "contention_share" not in facts
    assert facts["rank_imbalance"] == 0.4
    assert ranks.scaling() == {}


@pytest.mark.parametrize("other_cores", [0.0, 1.5])
def test_steps_beside_other_processes_have_no_efficiency(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, other_cores: float
) -> None:
    """Only the timed steps are judged for the result; these come after them."""
    nothing = lambda: CpuTimes(time.monotonic(), 2)  # noqa: E731
    monkeypatch.setattr(cpu_watch, "read_cpu_times", nothing)  # whatever else this machine does
    monkeypatch.setattr(cpu_watch, "read_strain", Reading)
    (watch := CpuWatch()).timed = CpuTimes(1e6, 2, busy_s=other_cores * 1e6)
    ranks = team(tmp_path, policy="ci", watch=watch)
    ranks.start()
    ranks.step()
    facts = ranks.environment()
    assert facts["rank_imbalance"] == 0.4, "of the timed steps"
    assert ("contention_share" in facts) == (not other_cores)
    assert ("scaling_efficiency" in ranks.scaling()) == (not other_cores)
    assert watch.timed.elapsed_s > 1e6
    assert watch.timed.own_s > 0, "the ranks' own time is no other process's"


def test_ranks_train_in_batches_of_a_comparison(tmp_path: Path) -> None:
    said: list[StepBatch] = []
    knobs = scenario_knobs("training")
    result = training.run_batches(None, team(tmp_path), knobs, [2, 1], said.append)
    assert [len(batch.samples) for batch in said] == [0, 2, 1], "ready, then each batch"
    assert result.environment["ranks"] == 2
    assert result.metrics["scaling_efficiency"].value == pytest.approx(0.4)
    assert result.metrics["loss"].samples == (2.0, 2.0, 2.0)


def test_a_loss_that_is_no_number_is_passed_on(tmp_path: Path) -> None:
    ranks = team(tmp_path, STEP.replace("[1.0, 3.0][mine]", '"NaN"'))
    ranks.start()
    assert math.isnan(ranks.step())
    ranks.environment()


@pytest.mark.parametrize("killed", [0, 1])
def test_a_killed_rank_is_one_failure(tmp_path: Path, killed: int) -> None:
    # The other one waits for it, as in all-reduce, and may say what it found there.
    step = f"os.kill(os.getpid(), signal.SIGKILL) if mine == {killed} else signal.pause()"
    found = failure_of(team(tmp_path, step))
    assert found.message == f"rank {killed} of 2 ended with SIGKILL"
    assert (found.blame, found.kind, found.signal) == (Blame.HARNESS, "signal", signal.SIGKILL)
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("killed", [0, 1])
def test_a_rank_killed_between_two_steps_is_the_same_failure(tmp_path: Path, killed: int) -> None:
    """The next order can't be written to it; that is no failure of the workload's."""
    ranks = team(tmp_path, f"({STEP}, mine == {killed} and os.kill(os.getpid(), signal.SIGKILL))")
    ranks.start()
    ranks.step()
    children = psutil.Process().children
    eventually(lambda: any(map(is_dead, children())), "the rank has ended", LOOK_S)
    assert ranks.cpu_s() > 0, "the clock of a process goes on telling until it is reaped"
    found = failure_of_step(ranks)
    assert found.message == f"rank {killed} of 2 ended with SIGKILL"
    assert (found.blame, found.kind, found.signal) == (Blame.HARNESS, "signal", signal.SIGKILL)
    assert not list(tmp_path.iterdir())


def test_what_a_rank_says_of_a_lost_one_waits_for_the_lost_one(tmp_path: Path) -> None:
    os.mkfifo(said := tmp_path / "said")
    peer = 'say(type="failure", blame="harness", kind="peer", message="lost")'
    first, second = f"({peer}, open({str(said)!r}, 'w').close())", f"open({str(said)!r}).read()"
    found = failure_of(team(tmp_path, f"({second}, sys.exit(3)) if mine else {first}"))
    assert found.message == "rank 1 of 2 ended with exit status 3"


def test_a_rank_that_exits_is_one_failure(tmp_path: Path) -> None:
    found = failure_of(team(tmp_path, "sys.exit(3) if mine else signal.pause()"))
    assert found.message == "rank 1 of 2 ended with exit status 3"
    assert (found.blame, found.kind, found.exit_code) == (Blame.WORKLOAD, "exit", 3)


def test_the_failure_of_a_rank_is_the_run_s(tmp_path: Path) -> None:
    said = 'say(type="failure", blame="workload", kind="exception", message="no")'
    found = failure_of(team(tmp_path, f"{said} if mine else signal.pause()"))
    assert (found.kind, found.message) == ("exception", "no")


def test_a_rank_that_the_kernel_killed_for_memory_is_the_workload_s() -> None:
    found = lost_rank("rank 1 of 2", -signal.SIGKILL, starved=True)
    assert (found.blame, found.kind) == (Blame.WORKLOAD, "out_of_memory")
    crashed = lost_rank("rank 1 of 2", -signal.SIGSEGV, starved=False)
    assert (crashed.blame, crashed.kind) == (Blame.WORKLOAD, "signal")


@pytest.mark.parametrize(("ranks", "threads"), [(2, 2), (3, 1)])
def test_ranks_without_cores_are_refused(tmp_path: Path, ranks: int, threads: int) -> None:
    said = f"ranks={ranks} x threads={threads} is more than the 2 cores to run on"
    with pytest.raises(WorkerFault, match=said) as caught:
        team(tmp_path, threads=threads, ranks=ranks)
    assert caught.value.failure.blame is Blame.USER


def test_a_batch_that_ranks_cannot_share_is_refused() -> None:
    text = LstmTraining(**workload_arguments("lstm", batch_size=3, layers=1, hidden_size=64))
    require_shares(text, 3, "lstm")
    with pytest.raises(WorkerFault, match="batch_size=3 is no multiple of ranks=2"):
        require_shares(text, 2, "lstm")
    small = Resnet18Training(**workload_arguments("resnet18", batch_size=4, image_size=32))
    require_shares(small, 2, "resnet18")
    with pytest.raises(WorkerFault, match="batch_size=4 over ranks=4 is 1 of a step's samples"):
        require_shares(small, 4, "resnet18")
    with pytest.raises(WorkerFault, match="workload line does not share its batches") as caught:
        require_shares(Line(), 2, "line")
    assert caught.value.failure.blame is Blame.USER
