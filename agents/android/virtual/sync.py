"""The sync service, files over adb (AOSP SYNC.TXT, file_sync_service.cpp): both versions."""

from __future__ import annotations

import os
import stat
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from agents.android.virtual import sync_format as form
from agents.android.virtual.errors import ProtocolViolation, StreamClosed
from agents.android.virtual.streams import Stream

Look = Callable[[bytes], os.stat_result]


class _Refused(Exception):
    """A file could not be read or written; the message goes to the peer."""


@contextmanager
def _trying(what: str) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise _Refused(f"{what}: {error.strerror}") from error


async def serve(stream: Stream, *, v2: bool) -> None:
    """Answer requests until QUIT or the stream's end; v2 tells whether the second forms exist."""
    try:
        await _Session(stream, v2).run()
    except StreamClosed:
        return


@dataclass(frozen=True, slots=True)
class _Session:
    stream: Stream
    v2: bool

    async def run(self) -> None:
        while True:
            kind, length = form.HEADER.unpack(await self._take(form.HEADER.size))
            if kind == b"QUIT":
                return
            if length > form.PATH_MAX:
                await self._fail("path too long")
                return
            path = await self._take(length)
            try:
                await self._answer(kind, path)
            except _Refused as refusal:
                await self._fail(str(refusal))

    async def _answer(self, kind: bytes, path: bytes) -> None:
        match kind:
            case b"STAT":
                await self.stream.write(form.stat_v1(_look(os.lstat, path)))
            case b"LIST":
                await self._list(path, v2=False)
            case b"SEND":
                await self._send_v1(path)
            case b"RECV":
                await self._receive(path)
            case b"STA2" | b"LST2" if self.v2:
                look = os.stat if kind == b"STA2" else os.lstat
                await self.stream.write(form.stat_v2(kind, _look(look, path)))
            case b"LIS2" if self.v2:
                await self._list(path, v2=True)
            case b"SND2" if self.v2:
                await self._send_v2(path)
            case b"RCV2" if self.v2:
                self._refuse_flags(form.RECEIVE_V2.unpack(await self._take(8))[1])
                await self._receive(path)
            case _:
                await self._fail("unknown command")
                raise StreamClosed

    async def _list(self, path: bytes, *, v2: bool) -> None:
        try:
            names = sorted(os.listdir(path))
        except (OSError, ValueError):  # adbd, too, lists what it can't open as empty
            names = []
        entry = form.entry_v2 if v2 else form.entry_v1
        answer = b"".join(entry(n, _look(os.lstat, os.path.join(path, n))) for n in names)
        await self.stream.write(answer + form.end_of_list(v2))

    async def _receive(self, path: bytes) -> None:
        with _trying("open failed"):
            file = _open(path, os.O_RDONLY)
        with os.fdopen(file, "rb", buffering=0) as source:
            while True:
                with _trying("read failed"):
                    data = source.read(form.DATA_MAX)
                if not data:
                    break
                await self.stream.write(form.packet(b"DATA", data))
        await self.stream.write(form.packet(b"DONE"))

    async def _send_v1(self, path_and_mode: bytes) -> None:
        path, comma, mode = path_and_mode.rpartition(b",")
        if not comma or not mode.isdigit():
            raise _Refused("missing , in ID_SEND")
        await self._store(path, int(mode))

    async def _send_v2(self, path: bytes) -> None:
        _, mode, flags = form.SEND_V2.unpack(await self._take(form.SEND_V2.size))
        self._refuse_flags(flags)
        await self._store(path, mode)

    def _refuse_flags(self, flags: int) -> None:
        # Compression, which our features don't offer.
        if flags:
            raise _Refused(f"unknown flags: {flags}")

    async def _store(self, path: bytes, mode: int) -> None:
        """Take a file or link; a refusal is told at once, and what still comes is passed over."""
        try:
            if stat.S_ISLNK(mode):
                modified = await self._store_link(path)
            else:
                modified = await self._store_file(path, mode)
        except _Refused as refusal:
            await self._fail(str(refusal))
            await self._pass_over()
            return
        with _trying("utime failed"):
            os.utime(path, (modified, modified), follow_symlinks=False)
        await self.stream.write(form.packet(b"OKAY"))

    async def _store_file(self, path: bytes, mode: int) -> int:
        with _trying("couldn't create file"):
            os.makedirs(os.path.dirname(path) or b"/", 0o775, exist_ok=True)
            _remove_link(path)
            file = _open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o666)
        try:
            with _trying("fchmod failed"):
                os.fchmod(file, (mode & 0o777) | (mode >> 3 & 0o070) | (mode >> 3 & 0o007))
            while (data := await self._next()) is not None:
                with _trying("write failed"):
                    _write(file, data)
        except _Refused:
            os.unlink(path)
            raise
        finally:
            os.close(file)
        return self._modified
