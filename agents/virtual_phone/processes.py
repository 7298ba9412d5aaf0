"""The processes of a phone's commands: their pipes or terminal, and their end."""

from __future__ import annotations

import asyncio
import fcntl
import os
import pty
import signal
from collections.abc import Sequence
from dataclasses import dataclass

CHUNK = 1 << 16
GRACE_S = 0.25
"""Seconds that a command may continue after its input closed or after SIGHUP."""


class Pipe:
    """Our end of a pipe or terminal, non-blocking; read or written by one task at a time."""

    def __init__(self, descriptor: int) -> None:
        os.set_blocking(descriptor, False)
        self._descriptor = descriptor
        self._open = True

    async def read(self) -> bytes:
        """Return available data, waiting for some; b"" at the end."""
        while self._open:
            try:
                return os.read(self._descriptor, CHUNK)
            except BlockingIOError:
                await self._readable()
            except OSError:  # EIO: no process has the terminal open any more
                return b""
        return b""

    async def write(self, data: bytes) -> None:
        """Write all data; data is dropped if nobody reads it, as with a closed pipe."""
        left = memoryview(data)
        while left and self._open:
            try:
                left = left[os.write(self._descriptor, left) :]
            except BlockingIOError:
                await self._writable()
            except OSError:
                return

    async def _readable(self) -> None:
        loop = asyncio.get_running_loop()
        ready = loop.create_future()
        loop.add_reader(self._descriptor, _wake, ready)
        try:
            await ready
        finally:
            loop.remove_reader(self._descriptor)

    async def _writable(self) -> None:
        loop = asyncio.get_running_loop()
        ready = loop.create_future()
        loop.add_writer(self._descriptor, _wake, ready)
        try:
            await ready
        finally:
            loop.remove_writer(self._descriptor)

    def close(self) -> None:
        """Close this end, which no task may be reading or writing; may be called again."""
        if self._open:
            self._open = False
            os.close(self._descriptor)


@dataclass(frozen=True, slots=True)
class Child:
    """A running command, leader of its process group."""

    process: asyncio.subprocess.Process
    stdin: Pipe
    stdout: Pipe
    stderr: Pipe | None
    """None if it is merged into stdout."""

    async def exit_code(self) -> int:
        """Wait for its end and return its exit code; 128 + the signal's number, as in shells."""
        code = await self.process.wait()
        return code if code >= 0 else 128 - code

    async def end(self) -> None:
        """End its whole group: close its input, then SIGHUP, then SIGKILL."""
        self.stdin.close()
        for number in (signal.SIGHUP, signal.SIGKILL):
            try:
                async with asyncio.timeout(GRACE_S):
                    await self.process.wait()
            except TimeoutError:
                pass
            _signal_group(self.process.pid, number)
        await self.process.wait()

    def close(self) -> None:
        """Close its pipes."""
        for pipe in (self.stdin, self.stdout, self.stderr):
            if pipe:
                pipe.close()


async def start(argv: Sequence[str], env: dict[str, str], *, separate_stderr: bool) -> Child:
    """Start a command on pipes; raises OSError if that fails."""
    theirs_in, ours_in = os.pipe()
    ours_out, theirs_out = os.pipe()
    ours_err, theirs_err = os.pipe() if separate_stderr else (None, None)
    pipes = [Pipe(end) for end in (ours_in, ours_out)]
    stderr = Pipe(ours_err) if ours_err is not None else None
    try:
        process = await asyncio.create_subprocess_exec(
            *argv,
            stdin=theirs_in,
            stdout=theirs_out,
            stderr=theirs_out if theirs_err is None else theirs_err,
            env=env,
            cwd="/",
            start_new_session=True,
        )
    except BaseException:
        for pipe in (*pipes, stderr):
            if pipe:
                pipe.close()
        raise
    finally:
        for end in (theirs_in, theirs_out, theirs_err):
            if end is not None:
                os.close(end)
    return Child(process, pipes[0], pipes[1], stderr)


async def start_on_terminal(argv: Sequence[str], env: dict[str, str]) -> Child:
    """Start a command on a terminal, which echoes and ends lines with CR LF.

    Raises OSError if that fails.
    """
    ours, theirs = pty.openpty()
    stdin, stdout = Pipe(ours), Pipe(fcntl.fcntl(ours, fcntl.F_DUPFD_CLOEXEC, 0))
    try:
        process = await asyncio.create_subprocess_exec(
            "setsid", "--ctty", *argv, stdin=theirs, stdout=theirs, stderr=theirs, env=env, cwd="/"
        )
    except BaseException:
        stdin.close()
        stdout.close()
        raise
    finally:
        os.close(theirs)
    return Child(process, stdin, stdout, None)


def _wake(ready: asyncio.Future[None]) -> None:
    if not ready.done():
        ready.set_result(None)


def _signal_group(leader: int, number: signal.Signals) -> None:
    try:
        os.killpg(leader, number)
    except ProcessLookupError:
        return
