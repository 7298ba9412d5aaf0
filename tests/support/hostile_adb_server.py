"""An adb server that lies, for attacks on its client: it says what a test has it say."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from itertools import chain, repeat
from pathlib import Path

from agents.remotes.adb.addresses import UnixSocket
from agents.remotes.adb.programs import Link
from agents.remotes.adb.remote import AdbRemote

SERIAL = "HOSTILE1"
OKAY = b"OKAY"
Say = Callable[[bytes], Iterator[bytes]]
"""What is said after the request that opened a service of the phone, piece by piece."""
SILENCE = b"(silence)"
"""Piece after which nothing more is said until the client hangs up."""
TRICKLE = b"(trickle)"
"""Piece after which what the client sends is taken, slowly, and nothing more is said."""
TRICKLE_BYTES, TRICKLE_S = 1 << 14, 0.005
BLOCK = 1 << 16


def block(text: bytes) -> bytes:
    """Return a text after its length, as adb servers say it."""
    return b"%04x" % len(text) + text


def for_ever(piece: bytes) -> Iterator[bytes]:
    """Say the same without end, in large writes."""
    return repeat(piece * max(1, BLOCK // max(1, len(piece))))


def once_and_then(piece: bytes, after: bytes = b"\xaa" * BLOCK) -> Iterator[bytes]:
    """Say something once, and then noise without end."""
    return chain([piece], repeat(after))


@dataclass(slots=True)
class HostileServer:
    """Serves one phone."""

    path: Path
    services: dict[bytes, Say]
    """By what a service's name begins with."""
    features: bytes = b"shell_v2"
    said_bytes: int = 0
    asked: list[bytes] = field(default_factory=list)

    @property
    def address(self) -> UnixSocket:
        return UnixSocket(self.path)

    def remote(self, patience_s: float = 30.0, clean_up_s: float = 5.0) -> AdbRemote:
        return AdbRemote.of(Link(self.address, SERIAL, clean_up_s, patience_s, 1.0), "attacked")

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while True:
                request = await reader.readexactly(int(await reader.readexactly(4), 16))
                self.asked.append(request)
                for piece in self._answer(request):
                    if piece == SILENCE:
                        await reader.read()
                        return
                    if piece == TRICKLE:
                        while await reader.read(TRICKLE_BYTES):
                            await asyncio.sleep(TRICKLE_S)
                        return
                    self.said_bytes += len(piece)
                    writer.write(piece)
                    await writer.drain()
                    await asyncio.sleep(0)  # drain need not let others go on
                if not request.startswith(b"host:transport:"):
                    break
        except (ConnectionError, asyncio.IncompleteReadError):
            return
        finally:
            writer.transport.abort()

    def _answer(self, request: bytes) -> Iterator[bytes]:
        for name, say in self.services.items():
            if request.startswith(name):
                return chain([OKAY], say(request))
        if request.startswith(b"host:transport:"):
            return iter([OKAY])
        answers: Sequence[tuple[bytes, bytes]] = (
            (b"host:version", b"0029"),
            (b"host:devices", f"{SERIAL}\tdevice\n".encode()),
            (b"host-serial:", self.features),
        )
        found = next((text for name, text in answers if request.startswith(name)), b"")
        return iter([OKAY + block(found)])


@asynccontextmanager
async def hostile_server(
    folder: Path, services: dict[bytes, Say], features: bytes = b"shell_v2"
) -> AsyncIterator[HostileServer]:
    """Listen on a socket in a folder for a while."""
    server = HostileServer(folder / "adb.sock", services, features)
    listening = await asyncio.start_unix_server(server.serve, server.path)
    try:
        yield server
    finally:
        listening.close()
