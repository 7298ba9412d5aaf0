"""Helper processes for work on untrusted input, which may crash or hang."""

from __future__ import annotations

import asyncio
import os
from asyncio.subprocess import PIPE
from typing import TypeVar

from pydantic import ValidationError

from agents.host.exit_reason import WorkerExit, outcome_of
from agents.host.oom import offer_to_oom_killer, oom_kills
from controller.contracts.base import Contract
from controller.contracts.error_payload import USER_ERROR, ErrorPayload
from controller.contracts.errors import UserError, WorkerFault
from controller.contracts.result import Blame, Failure, Outcome
from controller.platform.inherited import inherited
from controller.platform.programs import SAFE_PATH, python_module

Answer = TypeVar("Answer", bound=Contract)
LAST_BYTES = 2**14


async def ask_process(
    module: str, verb: str, order: Contract, kind: type[Answer], deadline_s: float
) -> Answer:
    """Run `python -m MODULE VERB` with an order on its standard input; raises its UserError.

    Raises WorkerFault: blame harness if it was killed or exceeded its deadline, which a retry may
    fix; blame workload if the kernel killed it for memory, or if it crashed.
    """
    kills = oom_kills()
    process = await asyncio.create_subprocess_exec(
        *python_module(module, verb),
        stdin=PIPE,
        stdout=PIPE,
        stderr=PIPE,
        env=inherited(os.environ) | SAFE_PATH,
    )
    what = f"{verb} with {module}"
    try:
        offer_to_oom_killer(process.pid)
        async with asyncio.timeout(deadline_s):
            said, trouble = await process.communicate(order.model_dump_json().encode())
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
        if process.returncode == USER_ERROR:
            raise ErrorPayload.model_validate_json(said).error()
        return kind.model_validate_json(said)
    except ValidationError as error:
        seen = f"the process ended with status {status}: {last}"
        raise UserError(what, seen, "Check that the model and data files are sound.") from error


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
