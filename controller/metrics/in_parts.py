"""A protocol of asyncio that passes on what a peer sends in parts of a limited size."""

from __future__ import annotations

import asyncio


class InParts(asyncio.BufferedProtocol):
    """Gives another protocol small parts, also of what TLS has decrypted at once.

    Between two parts, the event loop turns to others.
    """

    def __init__(self, protocol: asyncio.Protocol, size: int) -> None:
        self._protocol = protocol
        self._buffer = memoryview(bytearray(size))

    def limit(self, size: int) -> None:
        """Set the most bytes of a part."""
        if size != len(self._buffer):
            self._buffer = memoryview(bytearray(size))

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """See asyncio.BaseProtocol."""
        self._protocol.connection_made(transport)

    def get_buffer(self, _: int) -> memoryview:
        """See asyncio.BufferedProtocol."""
        return self._buffer

    def buffer_updated(self, nbytes: int) -> None:
        """See asyncio.BufferedProtocol."""
        self._protocol.data_received(bytes(self._buffer[:nbytes]))

    def eof_received(self) -> bool | None:
        """See asyncio.BufferedProtocol."""
        return self._protocol.eof_received()

    def pause_writing(self) -> None:
        """See asyncio.BaseProtocol."""
        self._protocol.pause_writing()

    def resume_writing(self) -> None:
        """See asyncio.BaseProtocol."""
        self._protocol.resume_writing()

    def connection_lost(self, exc: Exception | None) -> None:
        """See asyncio.BaseProtocol."""
        self._protocol.connection_lost(exc)
