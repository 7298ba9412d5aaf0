"""Running a program through adbd's `shell:` service, in both versions of its protocol.

Shell v2 (AOSP shell_protocol.h): packets of an id byte, a 32-bit little-endian length and data.
"""

from __future__ import annotations

import asyncio
import struct
from collections.abc import Callable
from dataclasses import dataclass, field

from agents.remotes.adb.commands import Framing
from agents.remotes.adb.smart_socket import Connection
from agents.remotes.remote import STDERR_BYTES, FaultKind, RemoteFault

_PACKET = struct.Struct("<BI")
_STDIN, _STDOUT, _STDERR, _EXIT, _CLOSE_STDIN = range(5)
_CHUNK = 1 << 16
MAX_IDLE = 64
"""Most empty packets in a row; adbd sends none, and endless ones would loop forever."""
V1_REQUEST = 4000
"""Most bytes of the message that opens a service on an old daemon (4096, AOSP before Android 7)."""


@dataclass(slots=True)
class Heard:
    """A program's output and exit codes so far."""

    framing: Framing
    on_stdout: Callable[[bytes], None]
    stderr: bytearray = field(default_factory=bytearray)
    """The last STDERR_BYTES of its standard error."""
    shell_exit: int | None = None
    """Exit code of the shell that led it, if the protocol reports one."""

    def out(self, data: bytes) -> None:
        """Add data of standard output."""
        if said := self.framing.feed(data):
            self.on_stdout(said)

    def err(self, data: bytes) -> None:
        """Add data of standard error."""
        self.stderr += data
        del self.stderr[:-STDERR_BYTES]

    @property
    def exit_code(self) -> int | None:
        """The program's exit code, else that of its shell; None if the connection broke."""
        return self.shell_exit if self.framing.exit_code is None else self.framing.exit_code


async def converse_v1(connection: Connection, heard: Heard) -> None:
    """Read until the service has ended; both outputs come as one."""
    while heard.framing.exit_code is None and (data := await connection.read()):
        heard.out(data)


async def converse_v2(connection: Connection, heard: Heard, stdin: bytes | None) -> None:
    """Send the input and read until the service has ended; None leaves the input open."""
    handing = asyncio.create_task(_hand_over(connection, stdin))
    try:
        await _listen(connection, heard)
    finally:
        # A program need not read its input, so a failed send is not a fault.
        handing.cancel()
        await asyncio.gather(handing, return_exceptions=True)


async def _hand_over(connection: Connection, stdin: bytes | None) -> None:
    if stdin is None:
        return
    for start in range(0, len(stdin), _CHUNK):
        part = stdin[start : start + _CHUNK]
        await connection.write(_PACKET.pack(_STDIN, len(part)) + part)
    await connection.write(_PACKET.pack(_CLOSE_STDIN, 0))


async def _listen(connection: Connection, heard: Heard) -> None:
    idle = 0
    while heard.shell_exit is None:
        try:
            kind, length = _PACKET.unpack(await connection.read_exactly(_PACKET.size))
            data = await connection.read_exactly(length)
        except RemoteFault as fault:
            if fault.kind is FaultKind.ADB_SERVER:
                return  # the service has ended
            raise
        idle = 0 if data and kind in (_STDOUT, _STDERR) else idle + 1
        if kind == _STDOUT:
            heard.out(data)
        elif kind == _STDERR:
            heard.err(data)
        elif kind == _EXIT:
            heard.shell_exit = data[0] if data else 255
        if idle > MAX_IDLE:
            message = f"its shell sent {idle} empty packets in a row"
            raise RemoteFault(str(connection.address), FaultKind.PROTOCOL, message)
