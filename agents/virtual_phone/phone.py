"""A virtual phone as a library: `async with VirtualPhone("flagship") as phone: …`."""

from __future__ import annotations

import asyncio
from asyncio.subprocess import PIPE, Process
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType
from typing import Self

from agents.virtual_phone import control
from agents.virtual_phone.errors import PhoneNotRunning
from agents.virtual_phone.faults import Fault
from controller.contracts.helper_reply import read_reply
from controller.contracts.virtual_phone import PhoneFacts
from controller.platform.programs import python_module

MODULE = "agents.virtual_phone"


class VirtualPhone:
    """A phone in separate processes; it ends with the block, or with this process."""

    def __init__(
        self,
        profile: str,
        *,
        serial: str | None = None,
        folder: Path | None = None,
        port: int = 0,
        cores: Sequence[int] = (),
        faults: Sequence[Fault] = (),
        authorized_keys: Path | None = None,
        any_key: bool = False,
    ) -> None:
        options = {
            "--profile": profile,
            "--serial": serial,
            "--folder": folder,
            "--port": port,
            "--cores": ",".join(map(str, cores)) or None,
            "--authorized-keys": authorized_keys,
        }
        given = [(name, str(value)) for name, value in options.items() if value is not None]
        self._arguments = [text for pair in given for text in pair] + any_key * ["--any-key"]
        self._faults = tuple(faults)
        self._process: Process | None = None
        self._facts: PhoneFacts | None = None

    @property
    def serial(self) -> str:
        """Its serial number, `ro.serialno`."""
        return self.facts.serial

    @property
    def address(self) -> str:
        """Address for `adb connect`, and the name that adb then gives it."""
        return self.facts.address

    @property
    def folder(self) -> Path:
        """Folder of its log and control socket."""
        return Path(self.facts.folder)

    @property
    def facts(self) -> PhoneFacts:
        """Its facts, as reported at its start."""
        assert self._facts is not None, "it has been started"
        return self._facts

    async def __aenter__(self) -> Self:
        """Start it; raises UserError with its message if that fails."""
        self._process = await asyncio.create_subprocess_exec(
            *python_module(MODULE, "--until-stdin-closes", *self._arguments),
            stdin=PIPE,
            stdout=PIPE,
            stderr=PIPE,
        )
        try:
            self._facts = await self._first_word(self._process)
            if self._faults:
                await self.set_faults(*self._faults)
        except BaseException:
            await self._end()
            raise
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Switch it off; nothing of it remains."""
        await self._end()

    async def status(self) -> control.PhoneStatus:
        """Return its status."""
        return await control.ask(self.folder, control.GetStatus())

    async def set_faults(self, *faults: Fault) -> control.PhoneStatus:
        """Replace all its faults by these."""
        return await control.ask(self.folder, control.SetFaults(faults=faults))

    async def set_conditions(self, conditions: control.SetConditions) -> control.PhoneStatus:
        """Change its battery or temperatures."""
        return await control.ask(self.folder, conditions)

    async def allow_host(self) -> control.PhoneStatus:
        """Allow the hosts that ask."""
        return await control.ask(self.folder, control.AllowHost())

    async def _first_word(self, process: Process) -> PhoneFacts:
        assert process.stdout is not None
        assert process.stderr is not None
        line = await process.stdout.readline()
        if not line:
            said = (await process.stderr.read()).decode(errors="replace").strip()
            raise PhoneNotRunning("start a virtual phone", said, "Read what it printed above.")
        facts = read_reply(line, PhoneFacts)
        assert not isinstance(facts, str), "a phone sends no progress"
        return facts

    async def _end(self) -> None:
        process, self._process = self._process, None
        if process is None:
            return
        if process.returncode is None:
            process.terminate()
        await process.communicate()
