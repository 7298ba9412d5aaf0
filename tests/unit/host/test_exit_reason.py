from __future__ import annotations

import signal
from dataclasses import replace
from pathlib import PurePosixPath
from unittest.mock import Mock

import pytest

from agents.attempts.runner_program import run_runner
from agents.host.exit_reason import UNKNOWN_INSTRUCTION, WorkerExit, outcome_of
from agents.remotes.remote import Ended, Remote
from controller.contracts.errors import WorkerFault
from controller.contracts.result import Blame, Failure
from tests.support import builders

QUIET = WorkerExit(
    returncode=0,
    last_message=None,
    garbled=None,
    past_deadline_s=None,
    out_of_memory=False,
    output="the last lines",
)
RESULT = builders.result()


def test_a_result_and_a_clean_exit() -> None:
    assert outcome_of(replace(QUIET, last_message=RESULT)) == RESULT


@pytest.mark.parametrize("returncode", [0, 1, -9])
def test_a_failure_the_worker_told_is_believed_however_it_ended(returncode: int) -> None:
    told = builders.failure(Blame.USER)
    ended = replace(QUIET, last_message=told, returncode=returncode, past_deadline_s=3.0)
    assert outcome_of(ended) == told.model_copy(update={"output": "the last lines"})


def test_output_the_worker_chose_itself_is_kept() -> None:
    told = builders.failure().model_copy(update={"output": "its own"})
    assert outcome_of(replace(QUIET, last_message=told)) == told


@pytest.mark.parametrize(
    ("ended", "blame", "kind", "message"),
    [
        (
            replace(QUIET, past_deadline_s=2.5, returncode=-9, last_message=RESULT),
            Blame.WORKLOAD,
            "deadline",
            "not done after 2.5 s. Raise deadline_s or make the run smaller.",
        ),
        (
            replace(QUIET, returncode=3, last_message=RESULT),
            Blame.WORKLOAD,
            "exit",
            "the worker exited with status 3 and gave no reason",
        ),
        (
            replace(QUIET, returncode=-11, garbled="x"),
            Blame.WORKLOAD,
            "signal",
            "the worker crashed with SIGSEGV",
        ),
        (
            replace(QUIET, returncode=-4),
            Blame.WORKLOAD,
            "signal",
            f"the worker crashed with SIGILL{UNKNOWN_INSTRUCTION}",
        ),
        (
            replace(QUIET, returncode=-6),
            Blame.WORKLOAD,
            "signal",
            "the worker crashed with SIGABRT",
        ),
        (
            replace(QUIET, returncode=-9),
            Blame.HARNESS,
            "signal",
            "another process killed the worker with SIGKILL",
        ),
        (
            replace(QUIET, returncode=-9, out_of_memory=None),
            Blame.HARNESS,
            "signal",
            (
                "the device killed the worker with SIGKILL, as phones do when memory runs out. "
                "End what else runs on it."
            ),
        ),
        (
            replace(QUIET, returncode=-15),
            Blame.HARNESS,
            "signal",
            "another process killed the worker with SIGTERM",
        ),
        (
            replace(QUIET, returncode=-9, out_of_memory=True),
            Blame.WORKLOAD,
            "out_of_memory",
            (
                "killed by the kernel: the host, or its control group, ran out of memory. Make the "
                "run smaller, or use a host with more memory."
            ),
        ),
        (
            replace(QUIET, returncode=-11, out_of_memory=True),
            Blame.WORKLOAD,
            "signal",
            "the worker crashed with SIGSEGV",
        ),
        (
            replace(QUIET, returncode=-50),
            Blame.WORKLOAD,
            "signal",
            "the worker crashed with signal 50",
        ),
        (
            replace(QUIET, garbled="Loading …", last_message=RESULT),
            Blame.HARNESS,
            "protocol",
            "the worker wrote a line that is not a message: 'Loading …'",
        ),
        (QUIET, Blame.HARNESS, "no_result", "the worker ended without a result"),
    ],
)
def test_what_an_exit_means(ended: WorkerExit, blame: Blame, kind: str, message: str) -> None:
    code = ended.returncode
    assert outcome_of(ended) == Failure(
        blame=blame,
        kind=kind,
        message=message,
        output="the last lines",
        exit_code=code if code >= 0 else None,
        signal=-code if code < 0 else None,
    )


def test_every_signal_has_an_owner() -> None:
    for number in signal.valid_signals():
        outcome = outcome_of(replace(QUIET, returncode=-number))
        assert isinstance(outcome, Failure)
        assert outcome.signal == number


@pytest.mark.parametrize(
    ("status", "exit_code", "number"),
    [(128, 128, None), (129, None, 1), (139, None, 11), (192, None, 64)]
    + [(status, status, None) for status in (193, 255, 300)],
)
async def test_only_a_status_that_names_a_signal_is_read_as_one(
    status: int, exit_code: int | None, number: int | None
) -> None:
    async def stream(*_: object) -> Ended:
        return Ended(status, past_deadline=False, stderr=b"")

    there = PurePosixPath("/there")
    with pytest.raises(WorkerFault) as caught:
        await run_runner(Mock(Remote, stream=stream), there, there, (1.0, 1.0), lambda _: None)
    assert (caught.value.failure.exit_code, caught.value.failure.signal) == (exit_code, number)
