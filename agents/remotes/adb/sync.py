"""Files over adb: version 1 of the sync protocol (AOSP SYNC.TXT), which all phones support.

A request is four letters, a 32-bit little-endian length and a path; content comes in DATA packets.
"""

from __future__ import annotations

import asyncio
import errno
import os
import stat
import struct
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import IO

from agents.remotes.adb.refusals import fault_of_refusal
from agents.remotes.adb.smart_socket import Connection
from agents.remotes.budget import Budget
from agents.remotes.remote import FaultKind, RemoteFault, malformed
from controller.platform.atomic import replacing

SERVICE = "sync:"
_HEAD = struct.Struct("<4sI")
_ENTRY = struct.Struct("<III")
_LISTED = struct.Struct("<4s4I")
_DATA_MAX = 64 << 10
_BLOCK = 16 * _DATA_MAX
_NAME_MAX = 255
"""Most bytes of a file name, on this host and on phones."""
_UNFIT = frozenset({errno.ENAMETOOLONG, errno.EILSEQ})
"""Errors of this host for a name or a path that it can't store."""


@dataclass(frozen=True, slots=True)
class Found:
    """A file or folder on a phone."""

    mode: int
    size: int

    @property
    def is_folder(self) -> bool:
        """Whether it is a folder itself, not a link to one."""
        return stat.S_ISDIR(self.mode)


@dataclass(frozen=True, slots=True)
class Sync:
    """A sync session; raises `hung` if nothing moves for `patience_s`."""

    connection: Connection
    serial: str
    patience_s: float

    async def send(self, source: IO[bytes], target: PurePosixPath, mode: int = 0o644) -> int:
        """Write a file and return its size; creates missing folders.

        Raises RemoteFault; an incomplete file is removed, unless the connection to an old phone
        broke.
        """
        await self._ask(b"SEND", os.fsencode(target) + f",{stat.S_IFREG | mode}".encode())
        refused = asyncio.create_task(self._answer())
        sending = asyncio.create_task(self._send_content(source))
        try:
            # A refusal comes early and must be read: a full disk then stops a long transfer.
            await asyncio.wait({refused, sending}, return_when=asyncio.FIRST_COMPLETED)
            if refused.done():
                refused.result()
            size = await sending
            with self._moving():
                async with asyncio.timeout(self.patience_s):
                    await refused
        finally:
            for task in (refused, sending):
                task.cancel()
            await asyncio.gather(refused, sending, return_exceptions=True)
        return size

    async def receive(self, source: PurePosixPath, target: IO[bytes], budget: Budget) -> int:
        """Read a file and return its size; raises RemoteFault."""
        await self._ask(b"RECV", os.fsencode(source))
        size, held = 0, bytearray()
        while True:
            kind, length = _HEAD.unpack(await self._read(_HEAD.size))
            if kind == b"DONE":
                await asyncio.to_thread(target.write, held)
                return size
            if kind == b"FAIL":
                raise fault_of_refusal(self.serial, f"{source}: {await self._words(kind, length)}")
            if kind != b"DATA" or not 0 < length <= _DATA_MAX:  # empty packets could go on forever
                raise self._nonsense(kind, length)
            budget.spend(size=length)
            held += await self._read(length)
            size += length
            if len(held) >= _DATA_MAX:
                await asyncio.to_thread(target.write, held)
                held = bytearray()

    async def look(self, path: PurePosixPath) -> Found | None:
        """Return the file or folder at a path, or None; raises RemoteFault."""
        await self._ask(b"STAT", os.fsencode(path))
        answer = await self._read(4 + _ENTRY.size)
        mode, size, _ = _ENTRY.unpack_from(answer, 4)
        return Found(mode, size) if mode else None

    async def list(self, folder: PurePosixPath, budget: Budget) -> dict[str, Found]:
        """Return a folder's entries by name; raises RemoteFault."""
        await self._ask(b"LIST", os.fsencode(folder))
        found: dict[str, Found] = {}
        while True:
            kind, mode, size, _, length = _LISTED.unpack(await self._read(_LISTED.size))
            if kind not in (b"DENT", b"DONE") or length > _NAME_MAX:
                raise self._nonsense(kind, length)
            name = os.fsdecode(await self._read(length))
            if kind == b"DONE":
                return found
            if not name or "/" in name or "\0" in name:
                raise self._nonsense(kind, length)
            budget.spend(files=1)
            if name not in (".", ".."):
                found[name] = Found(mode, size)

    async def _ask(self, request: bytes, path: bytes) -> None:
        await self._write(_HEAD.pack(request, len(path)) + path)

    async def _send_content(self, source: IO[bytes]) -> int:
        size = 0
        while block := await asyncio.to_thread(source.read, _BLOCK):
            parts = (block[at : at + _DATA_MAX] for at in range(0, len(block), _DATA_MAX))
            await self._write(b"".join(_HEAD.pack(b"DATA", len(p)) + p for p in parts))
            size += len(block)
        await self._write(_HEAD.pack(b"DONE", int(time.time())))
        return size

    async def _answer(self) -> None:
        # The sender applies the timeout: no answer is due before everything is sent.
        kind, length = _HEAD.unpack(await self._read_whenever(_HEAD.size))
        if kind == b"FAIL":
            raise fault_of_refusal(self.serial, await self._words(kind, length))
        if kind != b"OKAY":
            raise self._nonsense(kind, length)

    async def _words(self, kind: bytes, length: int) -> str:
        if length > _DATA_MAX:
            raise self._nonsense(kind, length)
        return (await self._read(length)).decode(errors="replace")

    async def _write(self, data: bytes) -> None:
        with self._moving():
            async with asyncio.timeout(self.patience_s):
                await self.connection.write(data)

    async def _read(self, n: int) -> bytes:
        with self._moving():
            async with asyncio.timeout(self.patience_s):
                return await self._read_whenever(n)

    async def _read_whenever(self, n: int) -> bytes:
        return await self.connection.read_exactly(n)

    @contextmanager
    def _moving(self) -> Iterator[None]:
        try:
            yield
        except TimeoutError as error:
            message = f"no byte of a file was transferred for {self.patience_s:g} s"
            raise RemoteFault(self.serial, FaultKind.HUNG, message) from error

    def _nonsense(self, kind: bytes, length: int) -> RemoteFault:
        message = f"the phone's sync service sent {kind!r} with length {length}"
        return malformed(self.serial, message)


@contextmanager
def _storable(sync: Sync, source: PurePosixPath) -> Iterator[None]:
    """Blame the phone for a name that this host can't store; other errors are this host's own."""
    try:
        yield
    except OSError as error:
        if error.errno not in _UNFIT:
            raise
        message = f"cannot pull {str(source)[:200]}: {error.strerror}"
        raise malformed(sync.serial, message) from error


async def receive_to(sync: Sync, source: PurePosixPath, target: Path, budget: Budget) -> None:
    """Copy a phone's file to this host, completely or not at all; raises RemoteFault."""
    with replacing(target) as new, new.open("wb") as file:
        await sync.receive(source, file, budget)


async def receive_tree(
    sync: Sync, source: PurePosixPath, found: Found, target: Path, budget: Budget, depth: int = 0
) -> None:
    """Copy a phone's file or folder to this host; raises RemoteFault."""
    if not found.is_folder:
        with _storable(sync, source):
            await receive_to(sync, source, target, budget)
        target.chmod(0o755 if found.mode & stat.S_IXUSR else 0o644)
        return
    budget.require_depth(depth, str(source))
    with _storable(sync, source):
        target.mkdir(exist_ok=True)
    for name, entry in (await sync.list(source, budget)).items():
        await receive_tree(sync, source / name, entry, target / name, budget, depth + 1)
