"""A run of a user's program on a device: push its files, run it, read what it printed.

The same on a phone over adb and on this host: only the Remote differs. LoadGen has no part in it,
so a result says by which rules it is valid.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from agents.android.command_output import facts_in, failure_in, measured, table_in
from agents.android.content import Content
from agents.android.on_device import OnDeviceRun, not_started, remove, short, task_of
from agents.transports.exit_reason import WorkerExit, outcome_of
from agents.transports.hearing import Hearing
from agents.transports.remote import RUNS, Ended, Remote, RemoteFault, failure_of
from controller.contracts.command import MODEL, OUTPUT, Command, rendered
from controller.contracts.device import Device
from controller.contracts.errors import UserError, WorkerFault
from controller.contracts.result import Failure, Outcome, Result, Validity
from controller.contracts.wire import CommandProgram, Progress, WorkerSpec
from models.mobile.work import MODEL as MODEL_FILE

STDOUT, STDERR, TABLE = "stdout.txt", "stderr.txt", "op_profile.json"
"""Files of a run's artefacts."""
MAX_KEPT: Final = 32 * 2**20
"""Bytes of standard output, or of a file that is read in its place, that are kept."""
LAST_LINES: Final = 20


@dataclass(frozen=True, slots=True)
class DeviceRun:
    """A Transport for a device's own programs: a runtime under LoadGen, or one of a user's."""

    remote_of: Callable[[Device], Remote]
    """Raises RemoteFault if the device can't be reached."""
    content: Content

    async def run(self, spec: WorkerSpec, on_progress: Callable[[Progress], None]) -> Outcome:
        """See Transport.run."""
        program = spec.job.program
        if not isinstance(program, CommandProgram):
            return await OnDeviceRun(self.remote_of, self.content).run(spec, on_progress)
        try:
            return await _run(spec, program, self.remote_of(spec.device), self.content)
        except (RemoteFault, UserError) as error:
            return failure_of(error)
        except WorkerFault as fault:
            return fault.failure

    async def clean(self) -> int:
        """See Transport.clean; a Remote cleans up before anything else is done on it."""
        return 0


@dataclass(slots=True)
class _Stdout:
    """What a program prints, as it comes."""

    lines: list[bytes] = field(default_factory=list)
    size: int = 0

    def take(self, line: bytes) -> None:
        self.size += len(line) + 1
        if self.size <= MAX_KEPT:
            self.lines.append(line.rstrip(b"\r\n"))

    @property
    def text(self) -> str:
        return b"\n".join(self.lines).decode(errors="replace")


async def _run(
    spec: WorkerSpec, program: CommandProgram, remote: Remote, content: Content
) -> Result:
    """Do it; raises RemoteFault, UserError, WorkerFault."""
    began, command, ref = time.monotonic(), program.command, spec.job.ref
    pushed = await remote.push_tree(await content.files(program.stack, command))
    folder = pushed.path.parent / RUNS / f"{ref.run_id}-{ref.attempt}"
    places = {f"file:{name}": str(pushed.path / name) for name in command.files}
    places |= await _model(spec, program, remote, content)
    places[OUTPUT] = str(folder / OUTPUT)
    await short(remote, "mkdir", "-p", places[OUTPUT])
    arguments, environment = rendered(command, spec.job.knobs, places)
    left_s = max(0.0, spec.job.deadline_s - (time.monotonic() - began))
    limit_s, stdout = min(command.timeout_s, left_s), _Stdout()
    kept = Path(spec.artefact_dir)
    try:
        ended = await remote.stream(arguments, limit_s, stdout.take, environment)
        _keep(kept, stdout, ended)
        everything = "\n".join((stdout.text, ended.stderr.decode(errors="replace")))
        _require_done(command, everything, ended, limit_s, silent=not stdout.lines)
        await remote.pull(folder / OUTPUT, kept / OUTPUT)
    except WorkerFault:
        await remove(remote, folder)
        raise
    await remove(remote, folder)
    facts = {"rules": command.rules, "meets_run_rules": False, "pushed_bytes": pushed.pushed_bytes}
    return Result(
        validity=Validity.VALID,
        metrics=measured(command, _read(command, stdout, kept / OUTPUT)),
        environment={**facts, "command": tuple(arguments), **facts_in(command, everything)},
        artefacts=_artefacts(command, everything, kept),
    )


async def _model(
    spec: WorkerSpec, program: CommandProgram, remote: Remote, content: Content
) -> dict[str, str]:
    """Have the workload's model there, if the program takes one."""
    if program.workload is None:
        return {}
    ready = await content.task(*task_of(spec.job, program.workload))
    files = await remote.push_tree(ready.tree)
    return {MODEL: str(files.path / MODEL_FILE)}


def _require_done(
    command: Command, text: str, ended: Ended, limit_s: float, *, silent: bool
) -> None:
    """Raise WorkerFault for a program that failed, in its own words where they are known."""
    failure = failure_in(command, text)
    if failure is None and silent:
        failure = not_started(ended, Hearing(lambda _: None))
    if failure is None and (ended.past_deadline or ended.exit_code != 0):
        failure = _exit_failure(ended, text, limit_s)
    if failure is not None:
        raise WorkerFault(failure)


def _exit_failure(ended: Ended, text: str, limit_s: float) -> Failure | None:
    signalled = ended.exit_code > 128  # as a shell gives a signal
    outcome = outcome_of(
        WorkerExit(
            returncode=128 - ended.exit_code if signalled else ended.exit_code,
            last_message=None,
            garbled=None,
            past_deadline_s=limit_s if ended.past_deadline else None,
            out_of_memory=ended.out_of_memory,
            output="\n".join(text.splitlines()[-LAST_LINES:]),
        )
    )
    return outcome if isinstance(outcome, Failure) else None


def _keep(folder: Path, stdout: _Stdout, ended: Ended) -> None:
    """Keep what a program printed, whatever it came to."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / STDOUT).write_text(stdout.text)
    (folder / STDERR).write_bytes(ended.stderr)


def _read(command: Command, stdout: _Stdout, output: Path) -> str:
    """Return what the figures are read from; raises UserError if the program wrote no such file."""
    if command.reads == "stdout":
        return stdout.text
    try:
        with (output / command.reads).open(errors="replace") as file:
            return file.read(MAX_KEPT)
    except OSError as error:
        tried = f"reading {command.reads}, which the program was to write"
        raise UserError(tried, error.strerror or str(error), f"see its {STDOUT}") from error


def _artefacts(command: Command, text: str, folder: Path) -> dict[str, str]:
    kept = {"stdout": str(folder / STDOUT), "stderr": str(folder / STDERR)}
    if command.table and (rows := table_in(command.table, text)):
        (folder / TABLE).write_text(json.dumps(rows, indent=1))
        kept["op_profile"] = str(folder / TABLE)
    return kept
