"""Places to run programs on, for the tests of what reaches them."""

from __future__ import annotations

import asyncio
import os
import sys
from asyncio.subprocess import PIPE
from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from random import Random

from agents.remotes.adb.addresses import Address
from agents.remotes.adb.connections import connect, state_of
from agents.remotes.adb.remote import AdbRemote
from agents.remotes.adb.smart_socket import ask
from agents.remotes.local import LocalRemote
from agents.remotes.remote import Remote, RemoteFault
from agents.virtual_phone import control
from agents.virtual_phone.faults import Fault
from controller.platform.processes import WORKER_MARKER, marked_processes
from tests.support.processes import is_dead
from tests.support.virtual_phone import RunningPhone
from tests.support.waiting import PATIENCE_S, until

OWNER = "remote-tests"


@dataclass(frozen=True, slots=True)
class Place:
    """Somewhere a Remote runs programs."""

    remote: Remote
    processes: Callable[[], Awaitable[int]]
    """How many processes the Remote's programs have there now."""
    reborn: Callable[[], Remote]
    """Makes the Remote of the same agent's next incarnation."""
    merged: bool = False

    async def until_quiet(self) -> None:
        """Return once nothing runs there."""

        async def quiet() -> bool:
            return not await self.processes()

        await until(quiet, "nothing is left running")


def local_place(folder: Path) -> Place:
    owner = f"{OWNER}-{os.getpid()}"

    async def processes() -> int:
        return sum(not is_dead(p) for p in marked_processes(WORKER_MARKER, owner))

    return Place(LocalRemote.of(folder, owner), processes, lambda: _Reborn.of(folder, owner))


class _Reborn(LocalRemote):
    """Cleans from another process: one that isn't the parent of what its former self has left."""

    async def clean(self) -> int:
        script = (
            "import asyncio, pathlib; from agents.remotes.local import LocalRemote; "
            f"folder, owner = pathlib.Path({str(self.folder)!r}), {self.programs.owner!r}; "
            "print(asyncio.run(LocalRemote.of(folder, owner).clean()))"
        )
        process = await asyncio.create_subprocess_exec(sys.executable, "-c", script, stdout=PIPE)
        said, _ = await process.communicate()
        return int(said)


@dataclass(frozen=True, slots=True)
class Phone:
    """A virtual phone behind an adb server."""

    running: RunningPhone
    server: Address
    remote: AdbRemote
    old: bool

    @property
    def place(self) -> Place:
        return Place(self.remote, self.processes, self.reborn, self.old)

    def reborn(self) -> AdbRemote:
        return AdbRemote.of(self.remote.link, OWNER)

    async def set_faults(self, *faults: Fault) -> None:
        await control.ask(self.running.folder, control.SetFaults(faults=faults))

    async def processes(self) -> int:
        return (await control.ask(self.running.folder, control.GetStatus())).processes

    async def free_bytes(self) -> int:
        status = await control.ask(self.running.folder, control.GetStatus())
        return status.storage_free_bytes

    async def until_cut(self) -> None:
        """Return once adb has seen its link break.

        adb tries again and lists the phone as what it then is, or has forgotten it: see `reset`.
        """

        async def cut() -> bool:
            return await state_of(self.server, self.running.address) != "device"

        await until(cut, "adb has seen the link break")

    async def reset(self) -> None:
        """Take away its faults, connect it, end and remove what is left there.

        What adb is told to disconnect while it reconnects, it may forget when its link next breaks.
        """

        async def settled() -> bool:
            return await state_of(self.server, self.running.address) in ("device", None)

        await self.set_faults()
        await until(settled, "adb has reconnected")
        with suppress(RemoteFault):  # it may not have been connected
            await ask(self.server, f"host:disconnect:{self.running.address}")
        await connect(self.server, self.running.address)
        await self.remote.clean()
        await self.remote.run(("rm", "-rf", str(self.remote.folder)), PATIENCE_S)
        await (
            self.place.until_quiet()
        )  # an old daemon tells the end of a program before its shell's


class Heard:
    """The lines of a stream, and a way to wait for one."""

    def __init__(self) -> None:
        self.lines: list[bytes] = []
        self._news = asyncio.Event()

    def take(self, line: bytes) -> None:
        self.lines.append(line)
        self._news.set()

    async def until(self, line: bytes) -> None:
        async with asyncio.timeout(PATIENCE_S):
            while line not in self.lines:
                self._news.clear()
                await self._news.wait()


def make_folder(folder: Path, size: int, seed: int = 1) -> Path:
    """Make a folder with a program, a link, an empty folder, odd names and `size` random bytes."""
    (folder / "bin").mkdir(parents=True)
    (folder / "empty").mkdir()
    (folder / "bin" / "hello").write_text("#!/bin/sh\necho hello\n")
    (folder / "bin" / "hello").chmod(0o755)
    (folder / "start").symlink_to("bin/hello")
    (folder / "it's a $(name), grüße").write_text("odd")
    (folder / "data.bin").write_bytes(Random(seed).randbytes(size))
    return folder
