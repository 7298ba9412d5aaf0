"""Programs on a phone: started, read, and ended whatever happens to the connection."""

from __future__ import annotations

import asyncio
import io
import logging
import re
from collections.abc import AsyncIterator, Callable, Coroutine, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import PurePosixPath
from typing import TypeVar

from agents.remotes.adb.addresses import Address
from agents.remotes.adb.commands import (
    BEFORE_BYTES,
    NOTHING,
    TERMINAL,
    Framing,
    Launch,
    end_line,
    new_token,
    others_tags,
    owner_tag,
)
from agents.remotes.adb.connections import RETURN_S, Route, recover, state_of
from agents.remotes.adb.refusals import DEVICE, fault_of_refusal
from agents.remotes.adb.shell import V1_REQUEST, Heard, converse_v1, converse_v2
from agents.remotes.adb.smart_socket import Connection, ask, open_service
from agents.remotes.adb.sync import SERVICE, Sync
from agents.remotes.remote import KILLED, Ended, FaultKind, RemoteFault, malformed

CLEAN_UP_S = 5.0
"""Seconds for a phone to answer and to end a program."""
PATIENCE_S = 30.0
"""Seconds without progress before the transfer of a file counts as hung."""
QUICK_S = 20.0
"""How long a phone may take to look or rename; for what reads or writes a whole tree, longer."""
THOROUGH_S = 600.0
"""How long a phone may take for what reads or writes a whole tree."""
PUSH_BYTES_PER_S = 1e6
"""Slowest link over which files are pushed; USB 2 has 20 to 40 times as much."""
_BROKEN = frozenset({FaultKind.OFFLINE, FaultKind.UNAUTHORIZED, FaultKind.ADB_SERVER})
_NUMBER = re.compile(r"\d{1,10}", re.ASCII)
log = logging.getLogger(__name__)
_Answer = TypeVar("_Answer")


@dataclass(frozen=True, slots=True)
class Link:
    """The connection to a phone, with its timeouts."""

    server: Address
    serial: str
    clean_up_s: float = CLEAN_UP_S
    patience_s: float = PATIENCE_S
    return_s: float = RETURN_S
    quick_s: float = QUICK_S
    push_s: float = THOROUGH_S
    """What a push may take beyond its bytes at `push_bytes_per_s`."""
    push_bytes_per_s: float = PUSH_BYTES_PER_S

    @property
    def route(self) -> Route:
        """The connection without its timeouts."""
        return Route(self.server, self.serial)

    async def has_shell_v2(self) -> bool:
        """Ask the server for the phone daemon's features; recovers an offline phone first."""
        request = f"host-serial:{self.serial}:features"
        features = await self.recovered(lambda: ask(self.server, request, self.serial))
        return "shell_v2" in features.split(",")

    async def recovered(self, attempt: Callable[[], Coroutine[object, object, _Answer]]) -> _Answer:
        """Return an attempt's result; repeat the attempt if the phone was offline and is
        recovered."""
        try:
            return await attempt()
        except RemoteFault as fault:
            if fault.kind is not FaultKind.OFFLINE:
                raise
        await recover(self.server, self.serial, self.return_s)
        return await attempt()

    @asynccontextmanager
    async def service(self, name: str) -> AsyncIterator[Connection]:
        """Open a connection to a service of the phone for a block; raises RemoteFault."""
        connection = await self.recovered(lambda: self._open(name))
        try:
            yield connection
        except RemoteFault as fault:
            raise await self._blamed(fault) from fault
        finally:
            connection.close()

    @asynccontextmanager
    async def sync(self) -> AsyncIterator[Sync]:
        """Open a sync session for a block; raises RemoteFault."""
        async with self.service(SERVICE) as connection:
            yield Sync(connection, self.serial, self.patience_s)

    async def _open(self, name: str) -> Connection:
        try:
            async with asyncio.timeout(self.patience_s):
                return await open_service(self.server, self.serial, name)
        except RemoteFault as fault:
            raise await self._blamed(fault) from fault
        except TimeoutError as error:
            message = f"no answer to a request for {self.patience_s:g} s"
            raise self.fault(FaultKind.HUNG, message) from error

    async def _blamed(self, fault: RemoteFault) -> RemoteFault:
        """Return the fault behind a closed connection: the server closes it when the phone goes."""
        if fault.kind is not FaultKind.ADB_SERVER:
            return fault
        await ask(self.server, "host:version")  # raises if the server is gone
        return self.fault(FaultKind.OFFLINE, "the link broke")

    def fault(self, kind: FaultKind, message: str) -> RemoteFault:
        """Return a fault of this phone."""
        return RemoteFault(self.serial, kind, message)


@dataclass(slots=True)
class _Program:
    launch: Launch
    stdin: bytes | None
    heard: Heard
    started: bool = False
    """Whether the phone may have started it."""


@dataclass(frozen=True, slots=True)
class Programs:
    """One agent's programs on one phone."""

    link: Link
    owner: str
    folder: PurePosixPath
    """Folder of input files for programs of an old daemon."""
    _running: set[str] = field(default_factory=set)
    _left: set[str] = field(default_factory=set)
    """Tokens of programs that could not be ended yet."""

    @property
    def place(self) -> str:
        """See Executor.place."""
        return self.link.serial

    async def execute(
        self,
        argv: Sequence[str],
        environment: Mapping[str, str],
        deadline_s: float,
        stdin: bytes | None,
        take: Callable[[bytes], None],
    ) -> Ended:
        """See Executor.execute."""
        token = new_token(self.owner)
        launch = Launch(token, argv, environment, TERMINAL)
        program = _Program(launch, stdin, Heard(self.link.serial, Framing(token), take))
        self._running.add(token)
        try:
            async with asyncio.timeout(deadline_s):
                merged = await self._converse(program)
        except TimeoutError:
            await self._abandon(program)
            return Ended(KILLED, True, bytes(program.heard.stderr))
        except BaseException as error:
            await self._abandon_after(error, program)
            raise
        finally:
            self._running.discard(token)
        code = program.heard.exit_code
        return Ended(KILLED if code is None else code, False, bytes(program.heard.stderr), merged)

    @property
    def busy(self) -> bool:
        """Whether a program of this object is running."""
        return bool(self._running)

    async def clean(self) -> int:
        """End processes that this owner left, but none that runs now."""
        if self.busy:
            return await self.end_left()
        ended = await self._end(owner_tag(self.owner))
        self._left.clear()
        return ended

    async def end_others(self) -> int:
        """End programs of other owners; called when none of theirs may run.

        A phone that was moved ends programs of the other host, but not at once; and not at all if
        it was connected over TCP and that host has only become silent.
        """
        return await self._end(others_tags(self.owner))

    async def end_left(self) -> int:
        """End programs that could not be ended earlier; called before anything else."""
        ended = 0
        for token in tuple(self._left):
            ended += await self._end(token)
            self._left.discard(token)
        return ended

    async def _converse(self, program: _Program) -> bool:
        """Run a program to its end; return whether its outputs came as one."""
        await self.end_left()
        v2 = await self.link.has_shell_v2()
        line = program.launch.line() if v2 else await self._line_v1(program)
        program.started = True
        async with self.link.service(f"{'shell,v2,raw' if v2 else 'shell'}:{line}") as connection:
            if v2:
                await converse_v2(connection, program.heard, program.stdin)
                if program.heard.framing.exit_code is not None and program.heard.shell_exit is None:
                    self._left.add(program.launch.token)  # what still holds its output
            else:
                await converse_v1(connection, program.heard)
        if program.heard.exit_code is None:
            raise await self._cut_off(program)
        return not v2

    async def _line_v1(self, program: _Program) -> str:
        launch = program.launch
        stdin = await self._put_stdin(launch.token, program.stdin)
        line = Launch(launch.token, launch.argv, launch.environment, stdin).line()
        if len(line.encode(errors="surrogateescape")) > V1_REQUEST:
            message = f"the command has {len(line)} bytes, but this old adbd takes {V1_REQUEST}"
            raise self.link.fault(FaultKind.UNSUPPORTED, message)
        return line

    async def _put_stdin(self, token: str, stdin: bytes | None) -> str:
        """Store a program's input in a file: an old daemon's terminal would change it."""
        if not stdin:
            return TERMINAL if stdin is None else NOTHING
        path = self.folder / f"incoming-{token}"
        async with self.link.sync() as sync:
            await sync.send(io.BytesIO(stdin), path)
        return str(path)

    async def _cut_off(self, program: _Program) -> RemoteFault:
        """Return why the conversation with a program ended before the program."""
        framing = program.heard.framing
        if framing.group is None and framing.before.strip():
            return fault_of_refusal(self.link.serial, framing.before.decode(errors="replace"))
        state = await state_of(self.link.server, self.link.serial)
        now = "is back already" if state == DEVICE else f"is {state or 'gone'} now"
        what = " ".join(program.launch.argv)[:200]
        message = f"the link broke while {what!r} ran; the phone {now}"
        return self.link.fault(FaultKind.OFFLINE, message)

    async def _abandon_after(self, error: BaseException, program: _Program) -> None:
        """End a program whose conversation was ended by a fault or a cancellation."""
        if not program.started:
            return
        if isinstance(error, RemoteFault) and error.kind in _BROKEN:
            self._left.add(program.launch.token)
            return
        try:
            await _to_its_end(self._abandon(program))
        except RemoteFault as fault:
            log.warning("%s; its program is ended when the phone is back", fault)

    async def _abandon(self, program: _Program) -> None:
        self._left.add(program.launch.token)
        await self._end(program.launch.token, program.heard.framing.group)
        self._left.discard(program.launch.token)

    async def _end(self, pattern: str, group: int | None = None) -> int:
        """End the processes of a token or a tag; return their number."""
        try:
            async with asyncio.timeout(self.link.clean_up_s):
                said = await self._say(end_line(pattern, group))
        except TimeoutError as error:
            message = f"no answer to an order to end programs for {self.link.clean_up_s:g} s"
            raise self.link.fault(FaultKind.HUNG, message) from error
        if not said:
            raise self.link.fault(FaultKind.OFFLINE, "the link broke while programs were ended")
        if not _NUMBER.fullmatch(said.strip()):
            shown = repr(said[:200])
            message = f"cannot end its programs: {shown}"
            raise self.link.fault(FaultKind.HUNG, message)
        return int(said)

    async def _say(self, line: str) -> str:
        """Return the output of a shell line that needs no group, input or exit code."""
        said = b""
        async with self.link.service(f"shell:{line}") as connection:
            while data := await connection.read():
                said += data
                if len(said) > BEFORE_BYTES:
                    message = f"its shell printed {len(said)} bytes instead of a number"
                    raise malformed(self.link.serial, message)
        return said.decode(errors="replace")


async def _to_its_end(work: Coroutine[object, object, None]) -> None:
    """Finish the work even if this task is cancelled; the work has its own deadline."""
    task = asyncio.create_task(work)
    while not task.done():
        try:
            await asyncio.shield(task)
        except asyncio.CancelledError:
            if task.cancelled():
                raise
    task.result()
