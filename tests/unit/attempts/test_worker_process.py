"""WorkerProcess with real workers: small scripts that behave, and ones that don't."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import sys
import textwrap
from pathlib import Path

import psutil
import pytest

from agents.attempts.worker_process import MAX_LINE_BYTES, OUTPUT_BYTES, OUTPUT_LINES, WorkerProcess
from controller.contracts.result import Blame, Failure, Outcome
from controller.contracts.wire import Progress
from controller.platform.processes import ATTEMPT_MARKER, WORKER_MARKER, marked_processes
from tests.support import builders
from tests.support.processes import OWNER, is_dead
from tests.support.waiting import PATIENCE_S

RESULT = builders.result().model_dump_json()
FAILURE = builders.failure(Blame.WORKLOAD).model_dump_json()
PRELUDE = f"""
import json, os, signal, subprocess, sys, time
spec = json.loads(sys.stdin.readline())
RESULT, FAILURE = {RESULT!r}, {FAILURE!r}
def say(line): print(line, flush=True)
"""
FOREVER = "time.sleep(600)"


def runner(script: str, owner: str = OWNER, max_line_bytes: int = MAX_LINE_BYTES) -> WorkerProcess:
    command = (sys.executable, "-c", PRELUDE + textwrap.dedent(script))
    return WorkerProcess(owner, lambda _: command, max_line_bytes)


async def outcome_of(
    script: str,
    folder: Path,
    deadline_s: float = PATIENCE_S,
    max_line_bytes: int = MAX_LINE_BYTES,
) -> Outcome:
    spec = builders.worker_spec(str(folder), deadline_s)
    worker = runner(script, max_line_bytes=max_line_bytes)
    return await worker.run(spec, lambda _: None)


async def failure_of(
    script: str,
    folder: Path,
    deadline_s: float = PATIENCE_S,
    max_line_bytes: int = MAX_LINE_BYTES,
) -> Failure:
    outcome = await outcome_of(script, folder, deadline_s, max_line_bytes)
    assert isinstance(outcome, Failure)
    return outcome


class Progresses:
    """Collects progress, and lets a test wait for it."""

    def __init__(self) -> None:
        self.queue: asyncio.Queue[Progress] = asyncio.Queue()

    async def number(self) -> int:
        """Wait for the next progress and return what it carries."""
        return (await asyncio.wait_for(self.queue.get(), PATIENCE_S)).done


def saying(number: str) -> str:
    """Return the statement by which a worker says a number."""
    return f'say(json.dumps({{"type": "progress", "phase": "", "done": {number}, "total": 0}}))\n'


def left_over(owner: str = OWNER) -> list[psutil.Process]:
    """Return the processes of an agent's attempt at `builders.worker_spec`."""
    return list(marked_processes(ATTEMPT_MARKER, f"{owner}/run-1/1"))


async def test_a_result(tmp_path: Path) -> None:
    assert await outcome_of("say(RESULT)", tmp_path) == builders.result()


async def test_a_worker_is_told_its_job_and_marked(tmp_path: Path) -> None:
    script = f"""
        assert spec["job"]["workload"] == "resnet"
        assert spec["artefact_dir"] == {str(tmp_path)!r}
        assert os.environ[{WORKER_MARKER!r}] == {OWNER!r}
        assert os.environ[{ATTEMPT_MARKER!r}] == {OWNER + "/run-1/1"!r}
        assert os.environ["OMP_NUM_THREADS"] == "1"
        assert os.getsid(0) == os.getpid()
        say(RESULT)
    """
    assert await outcome_of(script, tmp_path) == builders.result()


async def test_progress_comes_while_the_worker_works(tmp_path: Path) -> None:
    seen = Progresses()
    spec = builders.worker_spec(str(tmp_path))
    script = saying("7") + "os.kill(os.getpid(), signal.SIGSTOP)\nsay(RESULT)"
    work = asyncio.create_task(runner(script).run(spec, seen.queue.put_nowait))
    assert await seen.number() == 7

    (worker,) = left_over()
    _stopped(worker)
    worker.send_signal(signal.SIGCONT)
    assert await asyncio.wait_for(work, PATIENCE_S) == builders.result()


def _stopped(process: psutil.Process) -> None:
    os.waitid(os.P_PID, process.pid, os.WSTOPPED | os.WNOWAIT)


async def test_a_failure_comes_with_the_last_output(tmp_path: Path) -> None:
    failure = await failure_of("print('oh', file=sys.stderr); say(FAILURE); sys.exit(1)", tmp_path)
    assert failure == builders.failure(Blame.WORKLOAD).model_copy(update={"output": "oh"})


async def test_an_exit_status_without_a_word(tmp_path: Path) -> None:
    failure = await failure_of("sys.exit('out of luck')", tmp_path)
    assert (failure.blame, failure.kind, failure.exit_code) == (Blame.WORKLOAD, "exit", 1)
    assert failure.output == "out of luck"


async def test_a_result_of_a_worker_that_failed_is_none(tmp_path: Path) -> None:
    failure = await failure_of("say(RESULT); sys.exit(3)", tmp_path)
    assert (failure.kind, failure.exit_code) == ("exit", 3)


async def test_silence(tmp_path: Path) -> None:
    failure = await failure_of("", tmp_path)
    assert (failure.blame, failure.kind) == (Blame.HARNESS, "no_result")


async def test_killed_from_outside(tmp_path: Path) -> None:
    seen = Progresses()
    spec = builders.worker_spec(str(tmp_path))
    script = saying("os.getpid()") + FOREVER
    work = asyncio.create_task(runner(script).run(spec, seen.queue.put_nowait))
    os.kill(await seen.number(), signal.SIGKILL)

    failure = await asyncio.wait_for(work, PATIENCE_S)
    assert isinstance(failure, Failure)
    assert (failure.blame, failure.kind) == (Blame.HARNESS, "signal")
    assert (failure.signal, failure.exit_code) == (signal.SIGKILL, None)
    assert failure.message == "another process killed the worker with SIGKILL"


async def test_a_crash(tmp_path: Path) -> None:
    script = """
        import faulthandler, resource
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        print("deep in native code", file=sys.stderr, flush=True)
        os.kill(os.getpid(), signal.SIGSEGV)
    """
    failure = await failure_of(script, tmp_path)
    assert (failure.blame, failure.kind) == (Blame.WORKLOAD, "signal")
    assert failure.signal == signal.SIGSEGV
    assert failure.message == "the worker crashed with SIGSEGV"
    assert failure.output == "deep in native code"


async def test_the_deadline(tmp_path: Path) -> None:
    script = f"signal.signal(signal.SIGTERM, signal.SIG_IGN); {FOREVER}"
    failure = await failure_of(script, tmp_path, deadline_s=0.5)
    assert (failure.blame, failure.kind) == (Blame.WORKLOAD, "deadline")
    assert failure.message.startswith("not done after 0.5 s")
    assert left_over() == []


async def test_chatter_on_standard_output_is_no_message(tmp_path: Path) -> None:
    failure = await failure_of("print('Loading …'); say(RESULT)", tmp_path)
    assert (failure.blame, failure.kind) == (Blame.HARNESS, "protocol")
    assert "Loading" in failure.message


@pytest.mark.parametrize(
    "line",
    [
        r"sys.stdout.buffer.write(b'\xff\xfe\x00\n')",
        'say(\'{"type": "result"}\')',
        "say(RESULT[:-1])",
        "say('[' * 100_000)",
        "say('')",
        "say(RESULT.replace('0.25', 'NaN'))",
    ],
)
async def test_garbled_output(tmp_path: Path, line: str) -> None:
    failure = await failure_of(f"{line}; say(RESULT)", tmp_path)
    assert (failure.blame, failure.kind) == (Blame.HARNESS, "protocol")
    assert len(failure.message) < 1000


async def test_a_line_beyond_all_bounds(tmp_path: Path) -> None:
    failure = await failure_of("say('x' * 2**20); say(RESULT)", tmp_path, max_line_bytes=2**16)
    assert (failure.blame, failure.kind) == (Blame.HARNESS, "protocol")


async def test_a_result_with_many_samples_arrives_whole(tmp_path: Path) -> None:
    script = """
        result = json.loads(RESULT)
        result["metrics"]["step_time"]["samples"] = [0.123456789] * 100_000
        say(json.dumps(result))
    """
    outcome = await outcome_of(script, tmp_path)
    assert not isinstance(outcome, Failure)
    assert len(outcome.metrics["step_time"].samples) == 100_000


async def test_chatter_on_standard_error_is_kept(tmp_path: Path) -> None:
    script = "print('Loading …', file=sys.stderr); say(RESULT)"
    assert await outcome_of(script, tmp_path) == builders.result()
    assert (tmp_path / "output.log").read_text() == "Loading …\n"


async def test_of_much_output_the_last_lines_are_told(tmp_path: Path) -> None:
    script = "[print(n, file=sys.stderr) for n in range(100_000)]; sys.exit(1)"
    failure = await failure_of(script, tmp_path)
    last = range(100_000 - OUTPUT_LINES, 100_000)
    assert failure.output.splitlines() == [str(number) for number in last]


async def test_of_one_endless_line_the_end_is_told(tmp_path: Path) -> None:
    script = "print('x' * 10_000_000 + 'end', file=sys.stderr); sys.exit(1)"
    failure = await failure_of(script, tmp_path)
    assert failure.output.endswith("xend")
    assert len(failure.output) < OUTPUT_BYTES


ESCAPEE = """
child = subprocess.Popen(
    [sys.executable, "-c", "import signal, time; signal.signal(15, 1); time.sleep(600)"],
    start_new_session=True,
)
"""
"""Starts a child that leaves the session, ignores SIGTERM and holds the worker's pipes."""


@pytest.mark.parametrize(
    ("ending", "kind"),
    [("say(RESULT)", "result"), ("sys.exit(1)", "exit"), ("os.abort()", "signal")],
)
async def test_a_grandchild_in_its_own_session_ends_with_the_worker(
    tmp_path: Path, ending: str, kind: str
) -> None:
    limits = "import resource; resource.setrlimit(resource.RLIMIT_CORE, (0, 0))\n"
    work = outcome_of(limits + ESCAPEE + ending, tmp_path, 2 * PATIENCE_S)
    outcome = await asyncio.wait_for(work, PATIENCE_S)

    assert (outcome.kind if isinstance(outcome, Failure) else outcome.type) == kind
    assert left_over() == []


async def test_a_grandchild_does_not_hold_up_the_deadline(tmp_path: Path) -> None:
    work = failure_of(ESCAPEE + FOREVER, tmp_path, deadline_s=1.0)
    failure = await asyncio.wait_for(work, PATIENCE_S)
    assert failure.kind == "deadline"
    assert left_over() == []


async def test_cancelling_leaves_nothing(tmp_path: Path) -> None:
    seen = Progresses()
    spec = builders.worker_spec(str(tmp_path))
    script = ESCAPEE + saying("child.pid") + FOREVER
    work = asyncio.create_task(runner(script).run(spec, seen.queue.put_nowait))
    await seen.number()
    assert len(left_over()) == 2

    work.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await asyncio.wait_for(work, PATIENCE_S)
    assert work.cancelled()
    assert left_over() == []


async def test_a_worker_that_does_not_exist(tmp_path: Path) -> None:
    missing = WorkerProcess(OWNER, lambda _: ("/no/such/interpreter",))
    with pytest.raises(FileNotFoundError):
        await missing.run(builders.worker_spec(str(tmp_path)), lambda _: None)


async def test_descriptors_are_given_back(tmp_path: Path) -> None:
    await outcome_of("say(RESULT)", tmp_path)
    before = len(os.listdir("/proc/self/fd"))  # noqa: PTH208 - counts, names nothing
    for script in ("say(RESULT)", "sys.exit(1)"):
        await outcome_of(script, tmp_path)
    assert len(os.listdir("/proc/self/fd")) <= before  # noqa: PTH208


async def test_a_former_agents_workers_are_found_and_ended(tmp_path: Path) -> None:
    seen = Progresses()
    spec = builders.worker_spec(str(tmp_path))
    script = ESCAPEE + saying("child.pid") + FOREVER
    former = f"{OWNER}-former"
    work = asyncio.create_task(runner(script, former).run(spec, seen.queue.put_nowait))
    await seen.number()

    assert await runner(FOREVER, owner="somebody else").clean() == 0
    assert await _cleaned_by_another_process(former) == 2
    failure = await asyncio.wait_for(work, PATIENCE_S)
    assert isinstance(failure, Failure)
    assert left_over(former) == []


async def test_another_agents_worker_of_the_same_run_is_left_alone(tmp_path: Path) -> None:
    """As of two farms on one host that were given the same sweep."""
    seen = Progresses()
    spec = builders.worker_spec(str(tmp_path))
    neighbour = f"{OWNER}-neighbour"
    script = saying("7") + "sys.stdin.readline()\nsay(RESULT)"
    work = asyncio.create_task(runner(script, neighbour).run(spec, seen.queue.put_nowait))
    assert await seen.number() == 7

    assert await runner("say(RESULT)").run(spec, lambda _: None) == builders.result()
    (worker,) = left_over(neighbour)
    assert not is_dead(worker)
    work.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await asyncio.wait_for(work, PATIENCE_S)
    assert left_over(neighbour) == []


async def _cleaned_by_another_process(owner: str) -> int:
    """Clean as the next agent does, which is not the workers' parent."""
    script = f"""
import asyncio
from agents.attempts.worker_process import WorkerProcess
print(asyncio.run(WorkerProcess({owner!r}, lambda _: ()).clean()))
"""
    environ = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[3])}
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-c", script), stdout=asyncio.subprocess.PIPE, env=environ
    )
    output, _ = await process.communicate()
    return int(output)
