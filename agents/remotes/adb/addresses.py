"""Addresses of adb servers, and connecting to them."""

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
"""Pause between attempts to connect to a Unix socket with a full backlog, which sends no notice."""
Streams = tuple[asyncio.StreamReader, asyncio.StreamWriter]


class AddressInvalid(UserError):
    """A text that is neither HOST:PORT nor the path of a Unix socket."""


class Address(Protocol):
    """The address of an adb server; hashable, and `parse_address` parses its text."""

    @property
    def answer_s(self) -> float:
        """How long the server may take to answer a question."""
        ...

    async def connect(self, limit: int) -> Streams:
        """Connect, with `limit` bytes of read buffer; raises OSError."""
        ...


@dataclass(frozen=True, slots=True)
class HostPort:
    """A TCP port: open to every user of its host, and to other hosts unless on loopback."""

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
    """A Unix socket: open to users that the modes of its folder and file admit."""

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
            # A socket's path may have 107 bytes; that of a folder may be longer.
            path = f"/proc/self/fd/{folder}/{self.path.name}"
            while True:
                try:
                    return connected.connect(path)
                except BlockingIOError:  # asyncio would take it for a pending connection
                    await asyncio.sleep(FULL_PAUSE_S)
        finally:
            os.close(folder)

    def __str__(self) -> str:
        return str(self.path)


def parse_address(text: str) -> Address:
    """Parse HOST:PORT or a Unix socket's absolute path; raises AddressInvalid."""
    if text.startswith("/") and "\0" not in text and not text.endswith("/"):
        return UnixSocket(Path(text))
    host, _, port = text.rpartition(":")
    if not (host and port.isascii() and port.isdigit() and 0 < int(port) < 1 << 16):
        remedy = "Write HOST:PORT, or the absolute path of its Unix socket."
        raise AddressInvalid(f"use adb server {text!r}", "that is not an address", remedy)
    return HostPort(host.strip("[]"), int(port))
