"""The services that run commands: `shell:` in its two protocols, and `exec:`.

Shell v2 (AOSP shell_protocol.h) sends packets of an id byte, a 32-bit little-endian length and
data. Shell v1 and exec send bare output, standard error in it, and no exit code.
"""

from __future__ import annotations

import asyncio
import enum
import struct
from contextlib import suppress
from dataclasses import dataclass

from agents.virtual_phone.errors import ProtocolViolation, StreamClosed
from agents.virtual_phone.faults import Plug
from agents.virtual_phone.filesystem import SHELL
from agents.virtual_phone.processes import Child, Pipe, start, start_on_terminal
from agents.virtual_phone.streams import Stream

PACKET = struct.Struct("<BI")
MAX_PACKET = 1 << 20


class PacketId(enum.IntEnum):
    """The content of a shell v2 packet."""

    STDIN = 0
    STDOUT = 1
    STDERR = 2
    EXIT = 3
    CLOSE_STDIN = 4
    WINDOW_SIZE = 5


@dataclass(frozen=True, slots=True)
class Command:
    """The command in an OPEN, and how to run it."""

    line: str
    """Line for the phone's shell; empty for a shell that reads its standard input."""
    v2: bool
    terminal: bool
    """Whether it has a terminal: outputs merged, lines ended with CR LF."""
    term: str | None = None

    @property
    def argv(self) -> tuple[str, ...]:
        """The arguments of the process."""
        return (str(SHELL), "-c", self.line) if self.line else (str(SHELL),)


def parse_shell(destination: str, *, old: bool) -> Command:
    """Parse `shell[,option...]:line`; an old daemon has no options.

    As in adbd (AOSP shell_service.cpp, ShellService), a command gets a terminal if it asks for one
    (`pty`), and a shell that reads its input unless it asks for none (`raw`); the last option
    counts. Android 5 gives one to every command.
    """
    service, _, line = destination.partition(":")
    options = [] if old else service.split(",")[1:]
    term = next((o.removeprefix("TERM=") for o in options if o.startswith("TERM=")), None)
    asked = [option == "pty" for option in options if option in ("pty", "raw")]
    terminal = old or (asked[-1] if asked else not line)
    return Command(line, v2="v2" in options, terminal=terminal, term=term)


def parse_exec(destination: str) -> Command:
    """Parse `exec:line`: bytes in, bytes out."""
    return Command(destination.partition(":")[2], v2=False, terminal=False)


async def serve(stream: Stream, command: Command, env: dict[str, str], plug: Plug) -> None:
    """Run a command to its end; if the peer closes the stream before, end its whole group.

    As with adbd, a background process of the command outlives it if it holds no output open.
    """
    try:
        child = await _start(command, env)
    except OSError as error:
        await _refuse(stream, command, error)
        return
    ended = False
    try:
        plug.command_started(command.line)
        conversation = _PacketConversation if command.v2 else _BareConversation
        ended = await _converse(conversation(stream, child, plug))
    finally:
        await asyncio.shield(asyncio.create_task(_finish(child, ended)))


async def _start(command: Command, env: dict[str, str]) -> Child:
    env = env | {"TERM": command.term} if command.term else env
    if command.terminal:
        return await start_on_terminal(command.argv, env)
    return await start(command.argv, env, separate_stderr=command.v2)


async def _refuse(stream: Stream, command: Command, error: OSError) -> None:
    said = f"{SHELL}: {error.strerror}\n".encode()
    with suppress(StreamClosed):
        if command.v2:
            await stream.write(PACKET.pack(PacketId.STDERR, len(said)) + said)
            await stream.write(PACKET.pack(PacketId.EXIT, 1) + b"\x7e")
        else:
            await stream.write(said)


class _BareConversation:
    """Shell v1 and exec: bytes each way."""

    def __init__(self, stream: Stream, child: Child, plug: Plug) -> None:
        self._stream = stream
        self._child = child
        self._plug = plug

    async def talk(self) -> None:
        """Send the command's output until it has ended."""
        while data := await self._child.stdout.read():
            self._plug.command_said()
            await self._stream.write(data)
        await self._child.exit_code()

    async def hear(self) -> None:
        """Pass input to the command until the peer closes the stream."""
        while data := await self._stream.read():
            await self._child.stdin.write(data)


class _PacketConversation:
    """Shell v2: packets, which separate the outputs and end with the exit code."""

    def __init__(self, stream: Stream, child: Child, plug: Plug) -> None:
        self._stream = stream
        self._child = child
        self._plug = plug

    async def talk(self) -> None:
        """Send both outputs until the command has ended, then its exit code."""
        pipes = {PacketId.STDOUT: self._child.stdout, PacketId.STDERR: self._child.stderr}
        copies = [asyncio.create_task(self._copy(p, kind)) for kind, p in pipes.items() if p]
        try:
            await asyncio.gather(*copies)
        finally:
            await _cancel(*copies)
        await self._send(PacketId.EXIT, bytes([await self._child.exit_code() & 0xFF]))

    async def hear(self) -> None:
        """Pass input to the command until the peer closes the stream."""
        while True:
            kind, length = PACKET.unpack(await self._stream.read_exactly(PACKET.size))
            if length > MAX_PACKET:
                raise ProtocolViolation(f"shell packet of {length} bytes")
            data = await self._stream.read_exactly(length)
            if kind == PacketId.STDIN:
                await self._child.stdin.write(data)
            elif kind == PacketId.CLOSE_STDIN:
                self._child.stdin.close()

    async def _copy(self, pipe: Pipe, kind: PacketId) -> None:
        while data := await pipe.read():
            self._plug.command_said()
            await self._send(kind, data)

    async def _send(self, kind: PacketId, data: bytes) -> None:
        await self._stream.write(PACKET.pack(kind, len(data)) + data)


async def _converse(conversation: _BareConversation | _PacketConversation) -> bool:
    """Talk and hear concurrently; return True when the command has ended, False if the peer left
    first."""
    talking = asyncio.create_task(conversation.talk())
    hearing = asyncio.create_task(conversation.hear())
    try:
        await asyncio.wait({talking, hearing}, return_when=asyncio.FIRST_COMPLETED)
        ended = talking.done()
        (talking if ended else hearing).result()
    except StreamClosed:
        ended = False
    finally:
        await _cancel(talking, hearing)
    return ended


async def _cancel(*tasks: asyncio.Task[None]) -> None:
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)


async def _finish(child: Child, ended: bool) -> None:
    if not ended:
        await child.end()
    child.close()
