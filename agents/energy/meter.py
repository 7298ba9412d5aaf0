"""The user's power meter: a command that runs beside a run and prints power readings."""

from __future__ import annotations

import asyncio
import os
import signal
import tempfile
import time
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from typing import IO, Final

from agents.energy.meter_log import MAX_LINE_BYTES, MeterLog, Moment
from agents.host.user_command import ending, last_line
from controller.contracts.device import Device, DeviceKind
from controller.platform.inherited import inherited
from controller.platform.processes import ATTEMPT_MARKER, WORKER_MARKER, end_marked

PLACEHOLDER: Final = "{device}"
"""Placeholder in the command for the device's id; a phone's serial."""
VARIABLE: Final = "BENCHFARM_DEVICE"
"""Environment variable of the command with the same."""
NO_METER: Final = 69
"""Exit status before the first line if the command has no meter for a device (EX_UNAVAILABLE of
sysexits.h)."""
FIRST_LINE_S: Final = 10.0
"""Longest wait for the first line."""
LAST_WORDS_S: Final = 2.0
"""Longest wait for the end of a meter that has closed its output."""


def host_uptime() -> float:
    """Return this host's uptime in seconds, which can't be set and continues during suspend."""
    return time.clock_gettime(time.CLOCK_BOOTTIME)


def host_moment() -> Moment:
    """Return the present time by the host's clocks."""
    return Moment(time.time(), host_uptime())


@dataclass(frozen=True, slots=True)
class Meter:
    """A command, run without a shell, that measures this agent's devices; one process for each
    run."""

    command: Sequence[str]
    owner: str
    """Marks its processes, so that the agent's next incarnation can find and end them."""
    first_line_s: float = FIRST_LINE_S
    now: Callable[[], Moment] = host_moment

    def measures(self, device: Device) -> bool:
        """Return whether it is for a device; a command without the placeholder is only for its own
        host."""
        told = any(PLACEHOLDER in word for word in self.command)
        return told or device.kind is DeviceKind.CPU_HOST

    @asynccontextmanager
    async def running(self, device_id: str, attempt: str) -> AsyncIterator[MeterLog | None]:
        """Yield the log of its readings during the block; None if it has no meter for the device.

        attempt: names the run. The block begins with the first line, or after FIRST_LINE_S. After
        the block its process group is killed, with all other processes that carry its marker.
        """
        log = MeterLog(self.now().uptime_s)
        words = [word.replace(PLACEHOLDER, device_id) for word in self.command]
        marker = f"{self.owner}/{attempt}/meter"
        with tempfile.TemporaryFile() as errors:
            try:
                process, heard = await self._start(words, device_id, marker, errors)
            except OSError as error:
                log.trouble = f"{words[0]}: {error.strerror}"
                yield log
                return
            first = asyncio.Event()
            listener = asyncio.create_task(self._listen(process, heard, log, errors, first))
            try:
                with suppress(TimeoutError):
                    await asyncio.wait_for(first.wait(), self.first_line_s)
                if not first.is_set():
                    log.trouble = f"it told nothing in {self.first_line_s:g} s"
                yield None if process.returncode == NO_METER and not log.at_s else log
            finally:
                await _end(process, listener, marker)

    async def clean(self) -> int:
        """End meters that an earlier incarnation of this agent left; return the number of
        processes."""
        return await asyncio.to_thread(end_marked, WORKER_MARKER, self._mark, grace_s=0.0)

    @property
    def _mark(self) -> str:
        return f"{self.owner}/meter"

    async def _start(
        self, words: Sequence[str], device_id: str, marker: str, errors: IO[bytes]
    ) -> tuple[asyncio.subprocess.Process, int]:
        """Return the process and the reading end of a pipe; raises OSError.

        A pipe of our own: with asyncio's, wait() would wait until all of it is read.
        """
        markers = {WORKER_MARKER: self._mark, ATTEMPT_MARKER: marker}
        heard, speech = os.pipe()
        try:
            process = await asyncio.create_subprocess_exec(
                *words,
                stdin=asyncio.subprocess.DEVNULL,
                stdout=speech,
                stderr=errors,
                env={**inherited(os.environ), **markers, VARIABLE: device_id},
                start_new_session=True,
            )
        except BaseException:
            os.close(heard)
            raise
        finally:
            os.close(speech)
        return process, heard

    async def _listen(
        self,
        process: asyncio.subprocess.Process,
        heard: int,
        log: MeterLog,
        errors: IO[bytes],
        first: asyncio.Event,
    ) -> None:
        """Read lines until the end, or until a line makes the rest useless."""
        reader = asyncio.StreamReader(limit=2 * MAX_LINE_BYTES)
        transport, _ = await asyncio.get_running_loop().connect_read_pipe(
            lambda: asyncio.StreamReaderProtocol(reader), os.fdopen(heard, "rb")
        )
        try:
            # Data without a line end is a truncated number.
            while (line := await _line_of(reader)).endswith(b"\n"):
                log.take(line, self.now())
                first.set()
                if log.trouble:
                    return
            how = await _ending(process)
            log.trouble = ": ".join(filter(None, (how, last_line(errors))))
        finally:
            first.set()
            transport.close()


async def _line_of(stdout: asyncio.StreamReader) -> bytes:
    try:
        return await stdout.readline()
    except ValueError:  # asyncio's error for a line over the limit, which it has dropped
        return b"a line of more than %d bytes\n" % MAX_LINE_BYTES


async def _ending(process: asyncio.subprocess.Process) -> str:
    """Return how a meter ended that has closed its output."""
    try:
        return f"it ended, {ending(await asyncio.wait_for(process.wait(), LAST_WORDS_S))}"
    except TimeoutError:
        return "it closed its output"


async def _end(
    process: asyncio.subprocess.Process, listener: asyncio.Task[None], marker: str
) -> None:
    """End the meter; stops listening first, so that this doesn't count as a failure."""
    listener.cancel()
    await asyncio.wait({listener})
    if process.returncode is None:  # not reaped yet, so the group is still its own
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
    await process.wait()
    await asyncio.to_thread(end_marked, ATTEMPT_MARKER, marker, grace_s=0.0)
    if not listener.cancelled():
        listener.result()
