"""Running a program through adbd's `shell:` service, in both versions of its protocol.

Shell v2 (AOSP shell_protocol.h): packets of an id byte, a 32-bit little-endian length and data.
"""

from __future__ import annotations

import asyncio
import struct
from collections.abc import Callable
from dataclasses import dataclass, field

from agents.remotes.adb.commands import Framing
from agents.remotes.adb.smart_socket import MAX_READ, Connection
from agents.remotes.remote import (
    STDERR_BYTES,
    STREAM_BYTES,
    FaultKind,
    RemoteFault,
    malformed,
)

_PACKET = struct.Struct("<BI")
_STDIN, _STDOUT, _STDERR, _EXIT, _CLOSE_STDIN = range(5)
_CHUNK = 1 << 16
MAX_IDLE = 64
"""Most empty packets in a row; adbd sends none, and endless ones would loop forever."""
LAST_WORDS_S = 1.0
"""Seconds for the rest of standard error and the exit packet once a program has ended: adbd sends
that packet only when nobody holds the outputs."""
V1_REQUEST = 4000
"""Most bytes of the message that opens a service on an old daemon (4096, AOSP before Android 7)."""


@dataclass(slots=True)
class Heard:
    """A program's output and exit codes so far."""

    place: str
    """See RemoteFault."""
    framing: Framing
    on_stdout: Callable[[bytes], None]
    stderr: bytearray = field(default_factory=bytearray)
    """The last STDERR_BYTES of its standard error."""
    stderr_left: int = STREAM_BYTES
    """Bytes of standard error that may still come."""
    shell_exit: int | None = None
    """Exit code of the shell that led it, if the protocol reports one."""

    def out(self, data: bytes) -> None:
        """Add data of standard output."""
        if said := self.framing.feed(data):
            self.on_stdout(said)

    def err(self, data: bytes) -> None:
        """Add data of standard error; raises RemoteFault if there is too much."""
        self.stderr_left -= len(data)
        if self.stderr_left < 0:
            message = f"its program printed more than {STREAM_BYTES} bytes of standard error"
            raise RemoteFault(self.place, FaultKind.TOO_MUCH_OUTPUT, message)
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
    """Read until the shell's exit packet; not for long once the program has ended."""
    loop, idle = asyncio.get_running_loop(), 0
    try:
        async with asyncio.timeout(None) as last_words:
            while heard.shell_exit is None and (packet := await _packet(connection, heard.place)):
                kind, data = packet
                _take(heard, kind, data)
                idle = 0 if data and kind in (_STDOUT, _STDERR) else idle + 1
                if idle > MAX_IDLE:
                    raise malformed(heard.place, f"its shell sent {idle} empty packets in a row")
                if heard.framing.exit_code is not None and last_words.when() is None:
                    last_words.reschedule(loop.time() + LAST_WORDS_S)
    except TimeoutError:
        if not last_words.expired():
            raise


async def _packet(connection: Connection, place: str) -> tuple[int, bytes] | None:
    """Return the next packet; None once the service has ended."""
    try:
        kind, length = _PACKET.unpack(await connection.read_exactly(_PACKET.size))
        if length > MAX_READ:
            message = f"its shell announced {length} bytes, more than the limit of {MAX_READ}"
            raise malformed(place, message)
        return kind, await connection.read_exactly(length)
    except RemoteFault as fault:
        if fault.kind is FaultKind.ADB_SERVER:
            return None
        raise


def _take(heard: Heard, kind: int, data: bytes) -> None:
    if kind == _STDOUT:
        heard.out(data)
    elif kind == _STDERR:
        heard.err(data)
    elif kind == _EXIT:
        heard.shell_exit = data[0] if data else 255
