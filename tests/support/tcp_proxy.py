"""A TCP proxy in front of a phone, which can be closed, opened again, and fall silent."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress


class TcpProxy:
    """Passes on all that comes, until it is closed; then nobody gets through any more."""

    def __init__(self, to: str) -> None:
        self._to = to
        self._server: asyncio.Server | None = None
        self._flows = asyncio.Event()
        self._flows.set()
        self._ends: set[asyncio.StreamWriter] = set()
        self.address = ""

    async def open(self) -> None:
        """Listen on a free port of loopback, later on the same again."""
        former = int(self.address.rpartition(":")[2] or 0)
        self._server = await asyncio.start_server(self._pass_on, "127.0.0.1", former)
        host, port = self._server.sockets[0].getsockname()[:2]
        self.address = f"{host}:{port}"

    def silence(self) -> None:
        """Let nothing more through, of which neither end hears."""
        self._flows.clear()

    def close(self) -> None:
        """End what passes, and let nothing more through."""
        self._flows.set()
        if self._server:
            self._server.close()
        for end in self._ends:
            end.transport.abort()

    async def _pass_on(self, near: asyncio.StreamReader, back: asyncio.StreamWriter) -> None:
        host, _, port = self._to.rpartition(":")
        far, forth = await asyncio.open_connection(host, int(port))
        self._ends |= {back, forth}
        await asyncio.gather(self._pump(near, forth), self._pump(far, back))

    async def _pump(self, source: asyncio.StreamReader, target: asyncio.StreamWriter) -> None:
        with suppress(ConnectionError):
            while block := await source.read(1 << 16):
                await self._flows.wait()
                target.write(block)
                await target.drain()
        target.close()


@asynccontextmanager
async def tcp_proxy(to: str) -> AsyncIterator[TcpProxy]:
    """Have a proxy of HOST:PORT for a while."""
    one = TcpProxy(to)
    await one.open()
    try:
        yield one
    finally:
        one.close()
