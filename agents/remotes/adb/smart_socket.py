"""A client of the adb server's protocol (AOSP OVERVIEW.TXT, SERVICES.TXT) in asyncio.

Used in place of adbutils, whose client blocks a thread while a program runs, sleeps 20 ms a call,
sends without checking how much was sent, and starts a server on port 5037 whenever its own does not
answer.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Self

from agents.remotes.adb.addresses import Address
from agents.remotes.adb.refusals import fault_of_refusal
from agents.remotes.remote import FaultKind, RemoteFault

MAX_REQUEST = 0xFFFF
"""Most bytes of a request, whose length has four hexadecimal digits."""
MAX_READ = 1 << 20
"""Most bytes of a message in any protocol; a longer one is not read."""
_BUFFER = 1 << 20
_LENGTH = re.compile(rb"[0-9A-Fa-f]{4}")


class Connection:
    """A connection to the server; its first request decides its purpose."""

    def __init__(
        self, address: Address, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        self.address = address
        self._reader = reader
        self._writer = writer

    @classmethod
    async def open(cls, address: Address) -> Self:
        """Connect; raises RemoteFault `adb_server` if no server listens."""
        try:
            async with asyncio.timeout(address.answer_s):
                reader, writer = await address.connect(_BUFFER)
        except TimeoutError as error:
            message = f"the adb server accepted no connection for {address.answer_s:g} s"
            raise _gone(address, message) from error
        except OSError as error:
            raise _gone(address, f"no adb server answers: {error.strerror or error}") from error
        return cls(address, reader, writer)

    def close(self) -> None:
        """Close at once, without sending pending data; may be called again."""
        self._writer.transport.abort()

    async def request(self, text: str, place: str) -> None:
        """Send a request; raises RemoteFault about `place` if it is refused."""
        data = text.encode(errors="surrogateescape")
        if len(data) > MAX_REQUEST:
            message = f"the request has {len(data)} bytes; adb takes {MAX_REQUEST} at most"
            raise RemoteFault(place, FaultKind.PROTOCOL, message)
        await self.write(f"{len(data):04x}".encode() + data)
        answer = await self.read_exactly(4)
        if answer == b"FAIL":
            raise fault_of_refusal(place, (await self.read_block()).decode(errors="replace"))
        if answer != b"OKAY":
            raise RemoteFault(place, FaultKind.PROTOCOL, f"the adb server answered {answer!r}")

    async def write(self, data: bytes) -> None:
        """Send; raises RemoteFault `adb_server` if the connection has ended."""
        try:
            self._writer.write(data)
            await self._writer.drain()
        except OSError as error:
            raise _gone(self.address, f"the adb server hung up: {error}") from error

    async def read(self) -> bytes:
        """Return the next data; b"" at the end, or if the server's host doesn't answer."""
        try:
            return await self._reader.read(_BUFFER)
        except OSError:
            return b""

    async def read_exactly(self, n: int) -> bytes:
        """Return n bytes; raises RemoteFault `adb_server` if the connection ends before.

        Raises RemoteFault `protocol`, and reads nothing, if n exceeds MAX_READ.
        """
        if n > MAX_READ:
            message = f"the adb server announced {n} bytes, more than the limit of {MAX_READ}"
            raise RemoteFault(str(self.address), FaultKind.PROTOCOL, message)
        try:
            return await self._reader.readexactly(n)
        except (asyncio.IncompleteReadError, OSError) as error:
            raise _gone(self.address, "the adb server closed the connection") from error

    async def read_block(self) -> bytes:
        """Return a text preceded by its length; raises RemoteFault.

        A service may be refused here even after OKAY.
        """
        length = await self.read_exactly(4)
        if length == b"FAIL":
            words = (await self.read_block()).decode(errors="replace")
            raise fault_of_refusal(str(self.address), words)
        if not _LENGTH.fullmatch(length):
            raise _gone(self.address, f"the adb server sent {length!r} instead of a length")
        return await self.read_exactly(int(length, 16))


@asynccontextmanager
async def opened(address: Address) -> AsyncIterator[Connection]:
    """Open a connection for a block; raises RemoteFault."""
    connection = await Connection.open(address)
    try:
        yield connection
    finally:
        connection.close()


async def open_service(address: Address, serial: str, name: str) -> Connection:
    """Connect to a service of a phone; raises RemoteFault."""
    connection = await Connection.open(address)
    try:
        await connection.request(f"host:transport:{serial}", serial)
        await connection.request(name, serial)
    except BaseException:
        connection.close()
        raise
    return connection


async def ask(address: Address, request: str, place: str = "") -> str:
    """Return the server's answer to a request; raises RemoteFault."""
    try:
        async with asyncio.timeout(address.answer_s), opened(address) as connection:
            await connection.request(request, place or str(address))
            return (await connection.read_block()).decode(errors="replace")
    except TimeoutError as error:
        message = f"the adb server did not answer for {address.answer_s:g} s"
        raise _gone(address, message) from error


def _gone(address: Address, message: str) -> RemoteFault:
    return RemoteFault(str(address), FaultKind.ADB_SERVER, message)
