"""An adb stream: a two-way pipe in a connection, with one unacknowledged WRTE in each direction."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from agents.virtual_phone.errors import ProtocolViolation, StreamClosed
from agents.virtual_phone.wire import Command, Message

MAX_BACKLOG = 32 << 20
"""Bytes; more than the socket buffers of an adb client hold."""
Send = Callable[[Message], Awaitable[None]]
Service = Callable[["Stream"], Awaitable[None]]
"""Serves a stream; the stream is closed when it returns."""


@dataclass(slots=True)
class Backlog:
    """The bytes of a connection that wait for its services.

    A peer should wait for an OKAY after each WRTE, which keeps this small. But when a client of the
    adb server leaves, the server forwards all of its pending data at once.
    """

    waiting: int = 0

    def grow(self, n: int) -> None:
        """Add received bytes; raises ProtocolViolation beyond MAX_BACKLOG."""
        self.waiting += n
        if self.waiting > MAX_BACKLOG:
            raise ProtocolViolation(f"{self.waiting} bytes sent without waiting for OKAY")


class Stream:
    """The device's end of a stream.

    A peer's chunk is acknowledged when the service reads it, so a slow service slows the peer.
    """

    def __init__(
        self, local_id: int, remote_id: int, send: Send, max_payload: int, backlog: Backlog
    ) -> None:
        self.local_id = local_id
        self.remote_id = remote_id
        """The peer's id; 0 until the peer accepts a stream opened from here."""
        self._send = send
        self._max_payload = max_payload
        self._backlog = backlog
        self._waiting: asyncio.Queue[bytes] = asyncio.Queue()
        self._taken = bytearray()
        self._may_write = asyncio.Event()
        self._writing = asyncio.Lock()
        self._closed = False
        if remote_id:
            self._may_write.set()

    async def read(self) -> bytes:
        """Return the next data, b"" once the peer has closed the stream."""
        if self._taken:
            data, self._taken = bytes(self._taken), bytearray()
            return data
        if self._closed and self._waiting.empty():
            return b""
        data = await self._waiting.get()
        self._backlog.waiting -= len(data)
        if not self._closed:
            await self._send(Message(Command.OKAY, self.local_id, self.remote_id))
        return data

    async def read_exactly(self, n: int) -> bytes:
        """Return n bytes; raises StreamClosed if the peer closes first."""
        while len(self._taken) < n:
            taken, self._taken = self._taken, bytearray()
            chunk = await self.read()
            self._taken = taken + chunk
            if not chunk:
                raise StreamClosed
        data = bytes(self._taken[:n])
        del self._taken[:n]
        return data

    async def write(self, data: bytes) -> None:
        """Send data, each payload after the previous one is acknowledged; raises StreamClosed."""
        async with self._writing:
            for start in range(0, len(data), self._max_payload):
                await self.accepted()
                self._may_write.clear()
                chunk = data[start : start + self._max_payload]
                await self._send(Message(Command.WRTE, self.local_id, self.remote_id, chunk))

    async def accepted(self) -> None:
        """Wait until the peer accepts the stream or the last data; raises StreamClosed if it
        refuses."""
        await self._may_write.wait()
        if self._closed:
            raise StreamClosed

    def deliver(self, data: bytes) -> None:
        """Handle a WRTE from the peer; raises ProtocolViolation if it has sent far too much."""
        if data:
            self._backlog.grow(len(data))
            self._waiting.put_nowait(data)

    def acknowledge(self, remote_id: int) -> None:
        """Handle an OKAY from the peer: it accepted this stream, or the last WRTE."""
        self.remote_id = self.remote_id or remote_id
        self._may_write.set()

    def drop(self) -> None:
        """Drop unread data; called when the service has ended."""
        while not self._waiting.empty():
            self._backlog.waiting -= len(self._waiting.get_nowait())

    def end(self) -> None:
        """Handle a CLSE from the peer, or the end of the connection."""
        if not self._closed:
            self._closed = True
            self._waiting.put_nowait(b"")
            self._may_write.set()
