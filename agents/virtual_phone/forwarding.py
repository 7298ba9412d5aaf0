"""Sockets on the phone: the device's end of `adb forward`, and `adb reverse`.

Ports, abstract names and files are the phone's own: its network is separate and has no way out.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import dataclass, field

from agents.virtual_phone.errors import StreamClosed
from agents.virtual_phone.streams import Service, Stream

CHUNK = 1 << 16
OpenToPeer = Callable[[str, Service], Awaitable[None]]
"""Opens a stream to a destination on the peer's side and runs the service on it."""
_UNIX = {"localabstract": "\0", "localfilesystem": "", "local": ""}


async def connect(destination: str) -> Service:
    """Connect to a socket on the phone; raises OSError, also for an invalid address."""
    kind, _, name = destination.partition(":")
    if kind in _UNIX:
        reader, writer = await asyncio.open_unix_connection(_UNIX[kind] + name)
    else:
        reader, writer = await asyncio.open_connection("127.0.0.1", _port(name))

    async def service(stream: Stream) -> None:
        await join(stream, reader, writer)

    return service


async def join(stream: Stream, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Pass bytes both ways until both sides have ended, or one is gone."""

    async def to_peer() -> None:
        while data := await reader.read(CHUNK):
            await stream.write(data)

    async def from_peer() -> None:
        while data := await stream.read():
            writer.write(data)
            await writer.drain()

    tasks = {asyncio.create_task(to_peer()), asyncio.create_task(from_peer())}
    try:
        # An adb stream can't be half closed: the first end closes both, as in adbd.
        done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        for task in done:
            with suppress(OSError, StreamClosed):
                task.result()
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        writer.close()


@dataclass(slots=True)
class Reverses:
    """The `adb reverse` listeners of one connection; they end with it."""

    open_to_peer: OpenToPeer
    _servers: dict[str, tuple[asyncio.Server, str]] = field(default_factory=dict)

    async def serve(self, stream: Stream, request: str) -> None:
        """Answer one `reverse:` request."""
        with suppress(StreamClosed):
            try:
                await stream.write(await self._answer(request))
            except (OSError, ValueError) as error:
                await stream.write(b"FAIL" + _counted(str(error)))

    def close(self) -> None:
        """Stop listening, at the connection's end."""
        for server, _ in self._servers.values():
            server.close()
        self._servers.clear()

    async def _answer(self, request: str) -> bytes:
        verb, _, rest = request.partition(":")
        match verb:
            case "forward":
                return await self._listen(rest)
            case "list-forward":
                lines = (f"(reverse) {a} {b}\n" for a, (_, b) in sorted(self._servers.items()))
                return _counted("".join(lines))
            case "killforward":
                if rest not in self._servers:
                    raise ValueError(f"listener '{rest}' not found")
                self._servers.pop(rest)[0].close()
                return b"OKAY"
            case "killforward-all":
                self.close()
                return b"OKAY"
        raise ValueError(f"unknown reverse request {verb!r}")

    async def _listen(self, rest: str) -> bytes:
        no_rebind = rest.startswith("norebind:")
        address, semicolon, destination = rest.removeprefix("norebind:").partition(";")
        if not semicolon:
            raise ValueError(f"no destination in {rest!r}")
        if address in self._servers:
            if no_rebind:
                raise ValueError("cannot rebind existing socket")
            self._servers.pop(address)[0].close()
        server = await self._bind(address, destination)
        if address != "tcp:0":
            self._servers[address] = (server, destination)
            return b"OKAY"
        port = str(server.sockets[0].getsockname()[1])
        self._servers[f"tcp:{port}"] = (server, destination)
        return b"OKAY" + _counted(port)

    async def _bind(self, address: str, destination: str) -> asyncio.Server:
        async def accepted(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            async def service(stream: Stream) -> None:
                await join(stream, reader, writer)

            try:
                await self.open_to_peer(destination, service)
            finally:
                writer.close()

        kind, _, name = address.partition(":")
        if kind in _UNIX:
            return await asyncio.start_unix_server(accepted, _UNIX[kind] + name)
        if kind != "tcp":
            raise ValueError(f"can't listen on {address!r}")
        return await asyncio.start_server(accepted, "127.0.0.1", _port(name))


def _port(name: str) -> int:
    # `tcp:8000` or `tcp:8000:localhost`
    port = name.partition(":")[0]
    if not port.isascii() or not port.isdigit() or len(port) > 5 or int(port) > 65535:
        raise OSError(f"bad port {port[:20]!r}")
    return int(port)


def _counted(text: str) -> bytes:
    data = text.encode(errors="surrogateescape")
    return b"%04x" % len(data) + data
