"""A child process whose end tells how much CPU time it has used."""

from __future__ import annotations

import asyncio
import math
import os
import subprocess
from contextlib import suppress
from threading import Thread
from typing import Final

UNKNOWN_STATUS: Final = 255
"""Of a process that somebody else has waited for, as asyncio says, too."""


class Child:
    """A process that is waited for in a thread of its own; made in a running event loop.

    Not asyncio's, which leaves no way to ask what a process has used, and not the sum over all
    children of this process: others may end at the same time.
    """

    def __init__(self, process: subprocess.Popen[bytes]) -> None:
        self.pid = process.pid
        self.cpu_s = 0.0
        """CPU seconds of it and of its children that it has waited for, once it has ended; NaN if
        that is not known."""
        self._process = process
        self._loop = asyncio.get_running_loop()
        self._status: asyncio.Future[int] = self._loop.create_future()
        Thread(target=self._reap, daemon=True).start()

    async def wait(self) -> int:
        """Return its exit status, or the number of the signal that ended it, negative."""
        return await asyncio.shield(self._status)

    def _reap(self) -> None:
        try:
            _, status, used = os.wait4(self.pid, 0)
            ended, self.cpu_s = os.waitstatus_to_exitcode(status), used.ru_utime + used.ru_stime
        except ChildProcessError:
            ended, self.cpu_s = UNKNOWN_STATUS, math.nan
        self._process.returncode = ended  # else its finaliser would wait for it again
        with suppress(RuntimeError):  # the loop is closed: nobody waits
            self._loop.call_soon_threadsafe(self._status.set_result, ended)
