"""Helper processes for work on untrusted input, which may crash or hang."""

from __future__ import annotations

import asyncio
import os
from asyncio.subprocess import PIPE, Process
from contextlib import suppress

from agents.host.exit_reason import WorkerExit, outcome_of
from agents.host.oom import offer_to_oom_killer
from controller.contracts.base import Contract
from controller.contracts.errors import UserError, WorkerFault
from controller.contracts.helper_reply import Answer, read_reply
from controller.contracts.result import Blame, Failure, Outcome
from controller.platform.inherited import inherited
from controller.platform.memory import oom_kills
from controller.platform.programs import PYTHON_MODES, python_module

LAST_BYTES = 2**14


async def ask_process(
    module: str, verb: str, order: Contract, kind: type[Answer], deadline_s: float
) -> Answer:
    """Have the helper `python -m MODULE VERB` do what an order says; raises UserError.

    Raises WorkerFault: blame harness if it was killed or exceeded its deadline, which a retry may
    fix; blame workload if the kernel killed it for memory, or if it crashed.
    """
    kills = oom_kills()
    process = await asyncio.create_subprocess_exec(
        *python_module(module, verb),
        stdin=PIPE,
        stdout=PIPE,
        stderr=PIPE,
        env=inherited(os.environ) | PYTHON_MODES,
    )
    what = f"{verb} with {module}"
    try:
        offer_to_oom_killer(process.pid)
        async with asyncio.timeout(deadline_s):
            said, trouble = await _conversation(process, order)
    except TimeoutError as error:
        message = f"cannot {what}: no end after {deadline_s:g} s"
        raise harness_fault("deadline", message) from error
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()
    status, last = process.returncode or 0, _last_line(trouble)
    if status < 0:
        ended = WorkerExit(status, None, None, None, oom_kills() > kills, last)
        raise WorkerFault(_signalled(what, outcome_of(ended)))
    try:
        return _one_answer(said, kind, status)
    except ValueError as error:
        seen = f"the process ended with status {status}: {last}"
        raise UserError(what, seen, "Check that the model and data files are sound.") from error


def _one_answer(said: bytes, kind: type[Answer], status: int) -> Answer:
    """Return a helper's answer; raises the UserError that it replied with, or ValueError."""
    replies = [read_reply(line, kind) for line in said.splitlines()]
    if status != 0:
        raise ValueError("it failed after its replies")
    (answer,) = [reply for reply in replies if not isinstance(reply, str)]
    return answer


async def _conversation(process: Process, order: Contract) -> tuple[bytes, bytes]:
    """Return what a helper prints until its end; its input, which keeps it alive, stays open."""
    assert process.stdin
    assert process.stdout
    assert process.stderr
    with suppress(ConnectionError):  # it has ended already: its status says why
        process.stdin.write(order.model_dump_json().encode() + b"\n")
        await process.stdin.drain()
    said, trouble = await asyncio.gather(process.stdout.read(), process.stderr.read())
    await process.wait()
    return said, trouble


def harness_fault(kind: str, message: str) -> WorkerFault:
    """Return the fault of an attempt that failed because of the harness."""
    return WorkerFault(Failure(blame=Blame.HARNESS, kind=kind, message=message))


def _last_line(trouble: bytes) -> str:
    lines = trouble[-LAST_BYTES:].decode(errors="replace").strip().splitlines()
    return (lines or ["it gave no reason"])[-1]


def _signalled(what: str, outcome: Outcome) -> Failure:
    if not isinstance(outcome, Failure):
        raise TypeError(f"{what}: {outcome.type} of a process that was killed")
    return outcome.model_copy(update={"message": f"cannot {what}: {outcome.message}"})
