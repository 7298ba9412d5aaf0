"""A worker as a fresh process on this host: own session, JSON lines, deadline, full cleanup."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from agents.attempts.conversation import Conversation
from agents.attempts.worker_protocol import MessageReader
from agents.host.exit_reason import WorkerExit, outcome_of
from agents.host.launch import launch_of, while_watched
from agents.host.oom import offer_to_oom_killer
from agents.host.tools import read_host_tools
from controller.contracts.errors import WorkerFault
from controller.contracts.result import Outcome
from controller.contracts.wire import AttemptRef, Progress, WorkerSpec
from controller.platform.memory import oom_kills
from controller.platform.processes import ATTEMPT_MARKER, WORKER_MARKER, end_marked

MAX_LINE_BYTES = 64 * 2**20
"""Longest line from a worker: a result with a million raw samples fits."""
OUTPUT_LINES = 30
OUTPUT_BYTES = 16 * 2**10
LAST_WORDS_S = 5.0
"""Seconds to drain the pipe of a worker that has ended."""

Started = tuple[tuple[str, ...], Mapping[str, str]]
"""A worker's command and environment."""


@dataclass(frozen=True, slots=True)
class WorkerProcess:
    """Attempt runner of CPU hosts."""

    owner: str
    """Marks this agent's workers, so that its next incarnation can find and end them."""
    worker: Callable[[WorkerSpec], tuple[str, ...]]
    """Returns the command of a job's worker; raises WorkerFault if its stack is not installed."""
    max_line_bytes: int = MAX_LINE_BYTES

    async def run(
        self,
        spec: WorkerSpec,
        on_progress: Callable[[Progress], None],
        batches: Conversation | None = None,
    ) -> Outcome:
        """See AttemptRunner.run; `batches`: the conversation with a worker in batches."""
        try:
            launch = self._launch(spec)
        except WorkerFault as fault:
            return fault.failure
        kills = oom_kills()
        said = MessageReader(on_progress, batches.take if batches else None, self.max_line_bytes)
        # A pipe of our own: with asyncio's, wait() would wait for every process that inherited it.
        heard, speech = os.pipe()
        listener = asyncio.create_task(_listen(heard, said, self.max_line_bytes))
        try:
            returncode, late = await self._work(spec, launch, speech, batches)
        finally:
            mark = self._attempt(spec.job.ref)
            await asyncio.to_thread(end_marked, ATTEMPT_MARKER, mark, grace_s=0.0)
            await _finish(listener)
        return outcome_of(
            WorkerExit(
                returncode=returncode,
                last_message=said.last,
                garbled=said.garbled,
                past_deadline_s=spec.job.deadline_s if late else None,
                out_of_memory=oom_kills() > kills,
                output=_tail(_log(spec)),
            )
        )

    async def clean(self) -> int:
        """See AttemptRunner.clean."""
        return await asyncio.to_thread(end_marked, WORKER_MARKER, self.owner, grace_s=0.0)

    async def _work(
        self, spec: WorkerSpec, launch: Started, speech: int, batches: Conversation | None
    ) -> tuple[int, bool]:
        """Run the worker and its process group; return its status, and whether the deadline
        passed."""
        command, environ = launch
        try:
            with _log(spec).open("wb") as output:
                process = await asyncio.create_subprocess_exec(
                    *command,
                    stdin=asyncio.subprocess.PIPE,
                    stdout=speech,
                    stderr=output,
                    env=environ,
                    start_new_session=True,
                )
        finally:
            os.close(speech)
        try:
            offer_to_oom_killer(process.pid)
            late = await _converse(process, spec, batches)
        finally:
            _kill_group(process)
            returncode = await process.wait()
        return returncode, late

    def _launch(self, spec: WorkerSpec) -> Started:
        """Return the worker's command and environment; raises WorkerFault."""
        worker = self.worker(spec)
        tools = read_host_tools(Path(worker[0]).parent.parent)
        watched = spec.profile_pass in ("trace", "verbose", "replay")
        knobs = while_watched(spec.job.knobs, tools) if watched else spec.job.knobs
        launch = launch_of(os.environ, knobs, spec.device, tools)
        markers = {WORKER_MARKER: self.owner, ATTEMPT_MARKER: self._attempt(spec.job.ref)}
        return (*launch.prefix, *worker), launch.environ | markers

    def _attempt(self, ref: AttemptRef) -> str:
        return f"{self.owner}/{ref.run_id}/{ref.attempt}"


async def _converse(
    process: asyncio.subprocess.Process, spec: WorkerSpec, batches: Conversation | None
) -> bool:
    """Send the job and wait for the worker's end; return whether the deadline came first."""
    try:
        async with asyncio.timeout(spec.job.deadline_s):
            await _hand_over(process, spec)
            if batches and process.stdin:
                batches.attach(process.stdin)
            await process.wait()
    except TimeoutError:
        return True
    return False


async def _listen(heard: int, said: MessageReader, max_line_bytes: int) -> None:
    """Read the worker's messages until no process can send any."""
    reader = asyncio.StreamReader(limit=max_line_bytes)
    transport, _ = await asyncio.get_running_loop().connect_read_pipe(
        lambda: asyncio.StreamReaderProtocol(reader), os.fdopen(heard, "rb")
    )
    try:
        while line := await _read_line(reader, max_line_bytes):
            said.take(line)
    finally:
        transport.close()


async def _read_line(reader: asyncio.StreamReader, max_bytes: int) -> bytes:
    try:
        return await reader.readline()
    except ValueError:  # asyncio's error for a line over the limit, which it has dropped
        return b"a line of more than %d bytes\n" % max_bytes


async def _finish(listener: asyncio.Task[None]) -> None:
    # A process that dropped the marker may still hold the pipe: don't wait for it.
    await asyncio.wait({listener}, timeout=LAST_WORDS_S)
    if not listener.cancel():
        listener.result()


async def _hand_over(process: asyncio.subprocess.Process, spec: WorkerSpec) -> None:
    if process.stdin is None:
        return
    process.stdin.write(spec.model_dump_json().encode() + b"\n")
    try:
        # Stays open: the worker takes its closing as the death of the agent.
        await process.stdin.drain()
    except ConnectionError:
        return  # it ended at once; its exit status tells why


def _kill_group(process: asyncio.subprocess.Process) -> None:
    try:
        os.killpg(process.pid, signal.SIGKILL)
    except ProcessLookupError:
        return


def _log(spec: WorkerSpec) -> Path:
    return Path(spec.artefact_dir) / "output.log"


def _tail(log: Path) -> str:
    with log.open("rb") as file:
        file.seek(max(0, file.seek(0, os.SEEK_END) - OUTPUT_BYTES))
        text = file.read().decode(errors="replace")
    return "\n".join(text.splitlines()[-OUTPUT_LINES:])
