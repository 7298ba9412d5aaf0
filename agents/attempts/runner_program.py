"""The runner of a bundle as a program on a device, and the folder of its run there."""

from __future__ import annotations

import json
import logging
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from pathlib import PurePosixPath
from typing import Final

from agents.attempts.worker_protocol import MessageReader
from agents.host.exit_reason import WorkerExit, outcome_of
from agents.remotes.remote import (
    MESSAGE_CHARACTERS,
    NOT_STARTED,
    Ended,
    FaultKind,
    Remote,
    RemoteFault,
    one_line,
    run_own,
)
from controller.contracts.errors import WorkerFault
from controller.contracts.result import Blame, Failure, Result
from controller.contracts.wire import Progress

log = logging.getLogger(__name__)
_GARBAGE: Final = frozenset({str(FaultKind.PROTOCOL), "no_result"})
"""Kinds of failures of a program that says what is no message, or no outcome."""
PREPARE_S = 20.0
"""Deadline in seconds for the short commands around a run."""


async def run_runner(
    remote: Remote,
    bundle: PurePosixPath,
    spec: PurePosixPath,
    seconds: tuple[float, float],
    on_progress: Callable[[Progress], None],
) -> Result:
    """Run a bundle's runner on a spec; raises WorkerFault if it failed, and RemoteFault.

    seconds: how long it may still take, and the deadline that its failure then names.
    """
    left_s, deadline_s = seconds
    reader = MessageReader(on_progress)
    # Name the shell explicitly: the interpreter in the script's first line may not exist on the
    # device.
    ended = await remote.stream(["sh", str(bundle / "run"), str(spec)], left_s, reader.take)
    outcome = not_started(ended, reader) or outcome_of(_exit(ended, reader, deadline_s))
    if isinstance(outcome, Failure):
        raise WorkerFault(_blamed(outcome, ended))
    return outcome


def _blamed(failure: Failure, ended: Ended) -> Failure:
    """Return a failure with blame device if another machine answers as no runner does."""
    if ended.beside is not None or failure.kind not in _GARBAGE:
        return failure
    return failure.model_copy(update={"blame": Blame.DEVICE})


async def write_spec(remote: Remote, path: PurePosixPath, told: Mapping[str, object]) -> None:
    """Write a runner's spec on a device; raises RemoteFault, WorkerFault."""
    spec = json.dumps(told).encode()
    await short(remote, "sh", "-c", 'cat > "$1"', "sh", str(path), stdin=spec)


def not_started(ended: Ended, reader: MessageReader) -> Failure | None:
    """Return the failure to start the runner, or None if it has started."""
    if reader.began or ended.past_deadline or ended.exit_code not in NOT_STARTED:
        return None
    said = ended.stderr.decode(errors="replace").strip() or reader.garbled or ""
    words = said.splitlines()[-1] if said else f"exit status {ended.exit_code}"
    message = f"cannot start the runner on the device: {words}"
    return Failure(
        blame=Blame.DEVICE,
        kind=FaultKind.NO_EXEC,
        message=one_line(message, MESSAGE_CHARACTERS),
        output=said,
        exit_code=ended.exit_code,
    )


def _exit(ended: Ended, reader: MessageReader, deadline_s: float) -> WorkerExit:
    return WorkerExit(
        returncode=ended.returncode,
        last_message=reader.last,
        garbled=reader.garbled if not ended.merged else None,
        past_deadline_s=deadline_s if ended.past_deadline else None,
        out_of_memory=ended.out_of_memory,
        output=ended.stderr.decode(errors="replace"),
    )


@asynccontextmanager
async def run_folder(remote: Remote, folder: PurePosixPath) -> AsyncIterator[None]:
    """Make a run's folder on a device and remove it after the block, unless the device fails."""
    await short(remote, "mkdir", "-p", str(folder))
    in_trouble = False
    try:
        yield
    except RemoteFault as fault:
        in_trouble = fault.blame is not Blame.WORKLOAD
        raise
    finally:
        if not in_trouble:
            await _remove(remote, folder)


async def _remove(remote: Remote, folder: PurePosixPath) -> None:
    """Remove a run's folder; on failure, it is removed when the device is next taken in."""
    try:
        await short(remote, "rm", "-rf", str(folder))
    except (RemoteFault, WorkerFault) as trouble:
        log.warning("%s is left for now: %s", folder, trouble)


async def short(remote: Remote, *argv: str, stdin: bytes = b"") -> bytes:
    """Return the output of a short command around a run; raises RemoteFault, WorkerFault."""
    done = await run_own(remote, argv, PREPARE_S, stdin)
    if done.exit_code != 0:
        said = (done.stderr or done.stdout).decode(errors="replace").strip()[-300:]
        message = f"{argv[0]} on the device exited with status {done.exit_code}: {said}"
        raise WorkerFault(Failure(blame=Blame.DEVICE, kind="command", message=message))
    return done.stdout
