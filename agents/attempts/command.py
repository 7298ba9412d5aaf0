"""A run of a user's program on a device: push its files, run it, parse its output.

Works on a phone over adb and on this host: only the Remote differs. LoadGen takes no part, so the
result names the rules by which it is valid.
"""

from __future__ import annotations

import json
import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath
from typing import Final

from agents.attempts.on_device import LoadGenRunner, task_of
from agents.attempts.runner_program import not_started, run_folder, short
from agents.attempts.worker_protocol import MessageReader
from agents.host.disturbance import judged
from agents.host.exit_reason import WorkerExit, outcome_of
from agents.host.helper_process import ask_process
from agents.inference.content import Content
from agents.programs.command_reading import MAX_KEPT, PRINTED, Reading, ReadOrder
from agents.remotes.remote import RUNS, Ended, FaultKind, Remote, RemoteFault, failure_of
from controller.contracts.command import FILES, MODEL, OUTPUT, STDERR, STDOUT, Command, rendered
from controller.contracts.device import Device
from controller.contracts.errors import UserError, WorkerFault
from controller.contracts.policy import load_policy
from controller.contracts.result import Blame, Failure, Outcome, Result, Validity
from controller.contracts.wire import CommandProgram, Progress, WorkerSpec
from models.mobile.preparation import MODEL as MODEL_FILE

READER: Final = "agents.programs.command_reading"
READING_S = 120.0
"""Seconds for matching a stack's patterns against its program's output."""
TABLE: Final = "op_profile.json"
LAST_LINES: Final = 20
MAX_END: Final = 4096
"""Bytes kept of each of the last lines of an output that is too long."""


@dataclass(frozen=True, slots=True)
class DeviceRunner:
    """Attempt runner for programs on a device: LoadGen runs and users' programs."""

    remote_of: Callable[[Device], Remote]
    """Returns a device's Remote; raises RemoteFault if the device can't be reached."""
    content: Content
    reading_s: float = READING_S

    async def run(self, spec: WorkerSpec, on_progress: Callable[[Progress], None]) -> Outcome:
        """See AttemptRunner.run."""
        program = spec.job.program
        if not isinstance(program, CommandProgram):
            return await LoadGenRunner(self.remote_of, self.content).run(spec, on_progress)
        try:
            remote = self.remote_of(spec.device)
            return await _run(spec, program, remote, self.content, self.reading_s)
        except (RemoteFault, UserError) as error:
            return failure_of(error)
        except WorkerFault as fault:
            return fault.failure

    async def clean(self) -> int:
        """See AttemptRunner.clean; a Remote cleans up before its first use."""
        return 0


@dataclass(slots=True)
class _Stdout:
    """The standard output of a program, as it comes; more than MAX_KEPT bytes unless whole."""

    lines: list[bytes] = field(default_factory=list)
    end: deque[bytes] = field(default_factory=lambda: deque(maxlen=LAST_LINES))
    """The last lines, for failures, if there is more."""
    size: int = 0

    def take(self, line: bytes) -> None:
        line = line.rstrip(b"\r\n")
        if self.size <= MAX_KEPT:
            self.lines.append(line)
        else:
            self.end.append(line[:MAX_END])
        self.size += len(line) + 1

    @property
    def text(self) -> str:
        return b"\n".join((*self.lines, *self.end)).decode(errors="replace")


@dataclass(frozen=True, slots=True)
class _Limit:
    """The time that a program has, and what sets it."""

    seconds: float
    set_by: str = "deadline_s"


async def _run(
    spec: WorkerSpec,
    program: CommandProgram,
    remote: Remote,
    content: Content,
    reading_s: float,
) -> Result:
    """Run the program; raises RemoteFault, UserError, WorkerFault."""
    began, command, ref = time.monotonic(), program.command, spec.job.ref
    needed = command.needed(spec.job.knobs)
    pushed = await remote.push_tree(await content.files(program.stack, command, spec.job.knobs))
    folder = pushed.path.parent / RUNS / f"{ref.run_id}-{ref.attempt}"
    places = {f"file:{n}": str(pushed.path / (f.filename or n)) for n, f in needed.items()}
    places |= await _model(spec, program, remote, content)
    places |= {OUTPUT: str(folder / OUTPUT), FILES: str(pushed.path)}
    arguments, environment = rendered(command, spec.job.knobs, places)
    kept, stdout = Path(spec.artefact_dir), _Stdout()
    async with run_folder(remote, folder):
        await short(remote, "mkdir", places[OUTPUT])
        left_s = max(0.0, spec.job.deadline_s - (time.monotonic() - began))
        limit = _Limit(left_s)
        if command.timeout_s < left_s:
            limit = _Limit(command.timeout_s, f"timeout_s in the manifest of stack {program.stack}")
        ended = await remote.stream(arguments, limit.seconds, stdout.take, environment)
        _keep(kept, stdout, ended)
        await _pull(remote, folder / OUTPUT, kept / OUTPUT)
    reading = await _read(command, kept, reading_s)
    failure = _failure(reading, ended, limit, stdout, arguments[0])
    if failure is not None:
        raise WorkerFault(failure)
    facts = {"rules": command.rules, "meets_run_rules": False, "pushed_bytes": pushed.pushed_bytes}
    result = Result(
        validity=Validity.INVALID if reading.objections else Validity.VALID,
        reasons=reading.objections,
        metrics=reading.metrics,
        environment={**facts, "command": tuple(arguments), **reading.facts},
        artefacts=_artefacts(reading, kept),
    )
    policy = load_policy(str(spec.job.knobs["policy"]))
    return judged(result, ended.beside, policy) if ended.beside else result


async def _pull(remote: Remote, source: PurePosixPath, target: Path) -> None:
    """Fetch the files that a program wrote; a missing folder counts as empty."""
    try:
        await remote.pull(source, target)
    except RemoteFault as fault:
        if fault.kind is not FaultKind.MISSING_FILE:
            raise


async def _read(command: Command, folder: Path, reading_s: float) -> Reading:
    """Parse the output; raises WorkerFault if the patterns exceed the deadline."""
    order = ReadOrder(command=command, folder=folder)
    try:
        return await ask_process(READER, "read", order, Reading, reading_s)
    except WorkerFault as fault:
        if fault.failure.kind != "deadline":
            raise
        message = (
            f"cannot read its output: its patterns took longer than {reading_s:g} s. "
            "Simplify them, or print shorter lines."
        )
        failure = Failure(blame=Blame.USER, kind="patterns", message=message)
        raise WorkerFault(failure) from fault


async def _model(
    spec: WorkerSpec, program: CommandProgram, remote: Remote, content: Content
) -> dict[str, str]:
    """Push the workload's model, if the program takes one; return its placeholder."""
    if program.workload is None:
        return {}
    name, workload, numerics, _ = task_of(spec.job, program.workload)
    ready = await content.task(name, workload, numerics, None)  # the program brings its own inputs
    files = await remote.push_tree(ready.tree)
    return {MODEL: str(files.path / MODEL_FILE)}


def _failure(
    reading: Reading, ended: Ended, limit: _Limit, stdout: _Stdout, program: str
) -> Failure | None:
    """Return why a run measured nothing, with the program's own message if there is a pattern for
    it."""
    if reading.known:
        return reading.known
    if begun := _not_started(ended, stdout, program):
        return begun
    if ended.past_deadline or ended.exit_code != 0:
        return _exit_failure(ended, stdout.text, limit)
    return reading.unreadable


def _not_started(ended: Ended, stdout: _Stdout, program: str) -> Failure | None:
    """Return the failure to start the program; None if it has started, and may have failed to start
    another."""
    if ended.started is None:
        said = stdout.lines if ended.merged else ended.stderr.splitlines()
        # A shell names itself, then what it can't start; a script that is under way comes first.
        of_shell = [line for line in said if f" {program}:".encode() in line]
        printed = ended.merged and len(of_shell) < len(said)
        if not of_shell or printed or (stdout.lines and not ended.merged):
            return None
    elif ended.started:
        return None
    reader = MessageReader(lambda _: None)
    for line in stdout.lines:
        reader.take(line)
    return not_started(ended, reader)


def _exit_failure(ended: Ended, text: str, limit: _Limit) -> Failure | None:
    outcome = outcome_of(
        WorkerExit(
            returncode=ended.returncode,
            last_message=None,
            garbled=None,
            past_deadline_s=limit.seconds if ended.past_deadline else None,
            out_of_memory=ended.out_of_memory,
            output="\n".join(_said(text, ended)[-LAST_LINES:]),
            deadline=limit.set_by,
        )
    )
    if not isinstance(outcome, Failure) or outcome.kind != "exit":
        return outcome if isinstance(outcome, Failure) else None
    last = next((line for line in reversed(_said(text, ended)) if line.strip()), "nothing")
    said = f"the program exited with status {ended.exit_code}; its last line: {last.strip()[:200]}"
    return outcome.model_copy(update={"message": said})


def _said(text: str, ended: Ended) -> list[str]:
    return [*text.splitlines(), *ended.stderr.decode(errors="replace").splitlines()]


def _keep(folder: Path, stdout: _Stdout, ended: Ended) -> None:
    """Save what a program printed, however the run ended."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / PRINTED[STDOUT]).write_text(stdout.text)
    (folder / PRINTED[STDERR]).write_bytes(ended.stderr)


def _artefacts(reading: Reading, folder: Path) -> dict[str, str]:
    kept = {name: str(folder / file) for name, file in PRINTED.items()}
    if reading.table:
        (folder / TABLE).write_text(json.dumps(reading.table, indent=1))
        kept["op_profile"] = str(folder / TABLE)
    return kept
