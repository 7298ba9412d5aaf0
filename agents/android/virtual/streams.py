"""One adb stream: a two-way pipe inside a connection, one unanswered WRTE each way at a time."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

from agents.android.virtual.errors import ProtocolViolation, StreamClosed
from agents.android.virtual.wire import Command, Message

Send = Callable[[Message], Awaitable[None]]
Service = Callable[["Stream"], Awaitable[None]]
"""What a stream is connected to; it is run to its end, then the stream is closed."""


class Stream:
    """The device's end of a stream.

    A peer's chunk is acknowledged when the service takes it: a slow service slows the peer, and at
    most one chunk waits here.
    """

    def __init__(self, local_id: int, remote_id: int, send: Send, max_payload: int) -> None:
        self.local_id = local_id
        self.remote_id = remote_id
        """The peer's id; 0 until the peer has accepted a stream opened from here."""
        self._send = send
        self._max_payload = max_payload
        self._waiting: asyncio.Queue[bytes] = asyncio.Queue()
        self._taken = bytearray()
        self._may_write = asyncio.Event()
        self._writing = asyncio.Lock()
        self._closed = False
        if remote_id:
            self._may_write.set()

    async def read(self) -> bytes:
        """Return what came next, b"" once the peer has closed the stream."""
        if self._taken:
            data, self._taken = bytes(self._taken), bytearray()
            return data
        if self._closed and self._waiting.empty():
            return b""
        data = await self._waiting.get()
        if not self._closed:
            await self._send(Message(Command.OKAY, self.local_id, self.remote_id))
        return data

    async def read_exactly(self, n: int) -> bytes:
        """Return n bytes; raises StreamClosed if the peer closes before."""
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
        """Send data, each payload when the one before was acknowledged; raises StreamClosed."""
        async with self._writing:
            for start in range(0, len(data), self._max_payload):
                await self.accepted()
                self._may_write.clear()
                chunk = data[start : start + self._max_payload]
                await self._send(Message(Command.WRTE, self.local_id, self.remote_id, chunk))

    async def accepted(self) -> None:
        """Wait until the peer takes (more from) this stream; raises StreamClosed if it won't."""
        await self._may_write.wait()
        if self._closed:
            raise StreamClosed

    def deliver(self, data: bytes) -> None:
        """Take a WRTE from the peer; raises ProtocolViolation if the last one is unanswered."""
        if not self._waiting.empty():
            raise ProtocolViolation(f"stream {self.local_id}: WRTE before the last one's OKAY")
        if data and not self._closed:
            self._waiting.put_nowait(data)

    def acknowledge(self, remote_id: int) -> None:
        """Take an OKAY from the peer: it took this stream, or the last WRTE."""
        self.remote_id = self.remote_id or remote_id
        self._may_write.set()

    def end(self) -> None:
        """Take a CLSE from the peer, or the end of the connection."""
        if not self._closed:
            self._closed = True
            self._waiting.put_nowait(b"")
            self._may_write.set()
