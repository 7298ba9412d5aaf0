"""The outcome of an attempt from a worker's exit status and messages. Pure."""

from __future__ import annotations

import signal
from dataclasses import dataclass

from controller.contracts.result import Blame, Failure, Outcome, Result
from controller.platform.processes import signal_name

UNKNOWN_INSTRUCTION = ": this CPU, or its hypervisor, does not support the instruction"


@dataclass(frozen=True, slots=True)
class WorkerExit:
    """How a worker process ended."""

    returncode: int
    """Return code of asyncio and subprocess: negative for a signal."""
    last_message: Result | Failure | None
    garbled: str | None
    """The first line on its standard output that was not a message."""
    past_deadline_s: float | None
    """The deadline at which it was killed, if it was."""
    out_of_memory: bool | None
    """Whether the kernel's OOM killer killed a process there, of its control group, while it ran;
    None if unknown."""
    output: str
    """The last lines it printed."""
    deadline: str = "deadline_s"
    """What sets the deadline at which it was killed, if it was."""


def outcome_of(ended: WorkerExit) -> Outcome:
    """Return the outcome of an attempt."""
    said = ended.last_message
    if isinstance(said, Failure):
        return said if said.output else said.model_copy(update={"output": ended.output})
    if ended.past_deadline_s is not None:
        message = f"not done after {ended.past_deadline_s:g} s"
        advice = f"Raise {ended.deadline} or make the run smaller."
        return _failure(ended, Blame.WORKLOAD, "deadline", f"{message}. {advice}")
    if ended.returncode < 0:
        return _signalled(ended)
    if ended.returncode > 0:
        message = f"the worker exited with status {ended.returncode} and gave no reason"
        return _failure(ended, Blame.WORKLOAD, "exit", message)
    if ended.garbled is not None:
        message = f"the worker wrote a line that is not a message: {ended.garbled[:200]!r}"
        return _failure(ended, Blame.HARNESS, "protocol", message)
    if said is None:
        return _failure(ended, Blame.HARNESS, "no_result", "the worker ended without a result")
    return said


def _signalled(ended: WorkerExit) -> Failure:
    number = -ended.returncode
    name = signal_name(number)
    if number == signal.SIGKILL and ended.out_of_memory:
        message = "killed by the kernel: the host, or its control group, ran out of memory"
        advice = "Make the run smaller, or use a host with more memory."
        return _failure(ended, Blame.WORKLOAD, "out_of_memory", f"{message}. {advice}")
    if number == signal.SIGKILL and ended.out_of_memory is None:
        message = "the device killed the worker with SIGKILL, as phones do when memory runs out"
        advice = "End what else runs on it."
        return _failure(ended, Blame.HARNESS, "signal", f"{message}. {advice}")
    if number in (signal.SIGKILL, signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        return _failure(
            ended, Blame.HARNESS, "signal", f"another process killed the worker with {name}"
        )
    why = UNKNOWN_INSTRUCTION if number == signal.SIGILL else ""
    return _failure(ended, Blame.WORKLOAD, "signal", f"the worker crashed with {name}{why}")


def _failure(ended: WorkerExit, blame: Blame, kind: str, message: str) -> Failure:
    code = ended.returncode
    return Failure(
        blame=blame,
        kind=kind,
        message=message,
        output=ended.output,
        exit_code=code if code >= 0 else None,
        signal=-code if code < 0 else None,
    )
