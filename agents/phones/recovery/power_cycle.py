"""The user's command that switches a phone's power off and on, such as its USB port's."""

from __future__ import annotations

import asyncio
import os
import signal
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from typing import IO

from agents.host.user_command import ending, last_line
from controller.platform.inherited import inherited

PLACEHOLDER = "{serial}"
"""Placeholder in the command for the phone's serial."""
VARIABLE = "BENCHFARM_PHONE_SERIAL"
"""Environment variable of the command with the phone's serial."""
DEADLINE_S = 60.0


@dataclass(frozen=True, slots=True)
class PowerCycle:
    """A command, run without a shell, that switches one phone's power off and on."""

    command: Sequence[str]
    deadline_s: float = DEADLINE_S

    async def run(self, serial: str) -> str:
        """Run the command for a phone; return why it failed, with its last line, or "".

        At its deadline its process group is killed.
        """
        words = [word.replace(PLACEHOLDER, serial) for word in self.command]
        try:
            with tempfile.TemporaryFile() as output:
                return await self._run(words, serial, output)
        except OSError as error:
            return f"{words[0]}: {error.strerror}"

    async def _run(self, words: Sequence[str], serial: str, output: IO[bytes]) -> str:
        process = await asyncio.create_subprocess_exec(
            *words,
            stdin=asyncio.subprocess.DEVNULL,
            stdout=output,
            stderr=output,
            env={**inherited(os.environ), VARIABLE: serial},
            start_new_session=True,
        )
        late = await self._wait(process)
        if not late and process.returncode == 0:
            return ""
        how = f"killed after {self.deadline_s:g} s" if late else ending(process.returncode)
        return ": ".join(filter(None, (how, last_line(output))))

    async def _wait(self, process: asyncio.subprocess.Process) -> bool:
        """Wait for the command's end; return whether the deadline came first."""
        try:
            async with asyncio.timeout(self.deadline_s):
                await process.wait()
        except TimeoutError:
            return True
        finally:
            if process.returncode is None:  # not reaped yet, so the group is still its own
                os.killpg(process.pid, signal.SIGKILL)
                await process.wait()
        return False
