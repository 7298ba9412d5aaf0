"""Where adb servers listen, and how a connection to one is made."""

from __future__ import annotations

import asyncio
import os
import socket
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, Protocol

from controller.contracts.errors import UserError

ANSWER_S: Final = 10.0
FULL_PAUSE_S = 0.01
"""Between attempts to connect to a Unix socket at which too many wait: nobody tells of room."""
Streams = tuple[asyncio.StreamReader, asyncio.StreamWriter]


class AddressInvalid(UserError):
    """Something that is neither HOST:PORT nor the path of a Unix socket."""


class Address(Protocol):
    """Where an adb server listens; hashable, and `parse_address` reads its text."""

    @property
    def answer_s(self) -> float:
        """How long the server may take to answer a question."""
        ...

    async def connect(self, limit: int) -> Streams:
        """Connect, with a reader of so many bytes; raises OSError."""
        ...


@dataclass(frozen=True, slots=True)
class HostPort:
    """A TCP port: open to every user of its host, and to others if it is not loopback's."""

    host: str
    port: int
    answer_s: float = field(default=ANSWER_S, compare=False)

    async def connect(self, limit: int) -> Streams:
        """See Address.connect."""
        return await asyncio.open_connection(self.host, self.port, limit=limit)

    def __str__(self) -> str:
        return f"{self.host}:{self.port}"


@dataclass(frozen=True, slots=True)
class UnixSocket:
    """A Unix socket: open to those whom the modes of its folder and of itself let in."""

    path: Path
    answer_s: float = field(default=ANSWER_S, compare=False)

    async def connect(self, limit: int) -> Streams:
        """See Address.connect."""
        connected = socket.socket(socket.AF_UNIX)
        try:
            connected.setblocking(False)
            await self._connect(connected)
            return await asyncio.open_unix_connection(sock=connected, limit=limit)
        except BaseException:
            connected.close()
            raise

    async def _connect(self, connected: socket.socket) -> None:
        folder = os.open(self.path.parent, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            # A socket's path may have 107 bytes; a folder's may be longer.
            path = f"/proc/self/fd/{folder}/{self.path.name}"
            while True:
                try:
                    return connected.connect(path)
                except BlockingIOError:  # asyncio would take it for a connection under way
                    await asyncio.sleep(FULL_PAUSE_S)
        finally:
            os.close(folder)

    def __str__(self) -> str:
        return str(self.path)


def parse_address(text: str) -> Address:
    """Read HOST:PORT or a Unix socket's absolute path; raises AddressInvalid."""
    if text.startswith("/") and "\0" not in text and not text.endswith("/"):
        return UnixSocket(Path(text))
    host, _, port = text.rpartition(":")
    if not (host and port.isascii() and port.isdigit() and 0 < int(port) < 1 << 16):
        remedy = "Write HOST:PORT, or the absolute path of its Unix socket."
        raise AddressInvalid(f"use adb server {text!r}", "that is not an address", remedy)
    return HostPort(host.strip("[]"), int(port))
