"""The sync service for files over adb (AOSP SYNC.TXT, file_sync_service.cpp): both versions."""

from __future__ import annotations

import os
import stat
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

from agents.virtual_phone import sync_format as form
from agents.virtual_phone.errors import ProtocolViolation, StreamClosed
from agents.virtual_phone.streams import Stream

# A FIFO without a peer would block the whole phone.
_NEVER_WAIT = os.O_NONBLOCK | os.O_CLOEXEC


class _Refused(Exception):
    """A file could not be read or written; the message goes to the peer."""


@contextmanager
def _trying(what: str) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise _Refused(f"{what}: {error.strerror}") from error


async def serve(stream: Stream, *, v2: bool) -> None:
    """Answer requests until QUIT or the stream's end; v2: whether version 2 requests exist."""
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

    async def _answer(self, kind: bytes, raw: bytes) -> None:
        path = _path(raw)
        match kind:
            case b"STAT":
                await self.stream.write(form.stat_v1(_look(path.lstat)))
            case b"LIST":
                await self._list(path, v2=False)
            case b"SEND":
                await self._send_v1(raw)
            case b"RECV":
                await self._receive(path)
            case _ if self.v2:
                await self._answer_v2(kind, path)
            case _:
                await self._refuse_request()

    async def _answer_v2(self, kind: bytes, path: Path) -> None:
        match kind:
            case b"STA2":
                await self.stream.write(form.stat_v2(kind, _look(path.stat)))
            case b"LST2":
                await self.stream.write(form.stat_v2(kind, _look(path.lstat)))
            case b"LIS2":
                await self._list(path, v2=True)
            case b"SND2":
                await self._send_v2(path)
            case b"RCV2":
                _refuse_flags(form.RECEIVE_V2.unpack(await self._take(form.RECEIVE_V2.size))[1])
                await self._receive(path)
            case _:
                await self._refuse_request()

    async def _refuse_request(self) -> None:
        await self._fail("unknown command")
        raise StreamClosed

    async def _list(self, path: Path, *, v2: bool) -> None:
        try:
            below = sorted(path.iterdir())
        except OSError:  # like adbd, list a folder that can't be opened as empty
            looks = {}
        else:  # it has all that readdir gives
            looks = {".": path.stat, "..": (path / "..").stat, **{p.name: p.lstat for p in below}}
        entry = form.entry_v2 if v2 else form.entry_v1
        answer = b"".join(entry(os.fsencode(name), _look(look)) for name, look in looks.items())
        await self.stream.write(answer + form.end_of_list(v2))

    async def _receive(self, path: Path) -> None:
        with _trying("open failed"):
            file = os.open(path, os.O_RDONLY | _NEVER_WAIT)
        try:
            # DONE is sent with the last DATA: a separate small chunk would wait 40 ms for the
            # delayed acknowledgement between adb's server and its client.
            last = b""
            while data := _read(file):
                await self.stream.write(last)
                last = form.packet(b"DATA", data)
        finally:
            os.close(file)
        await self.stream.write(last + form.packet(b"DONE"))

    async def _send_v1(self, path_and_mode: bytes) -> None:
        path, comma, mode = path_and_mode.rpartition(b",")
        if not comma or not mode.isdigit():
            raise _Refused("missing , in ID_SEND")
        await self._store(_path(path), int(mode) & 0xFFFFFFFF)

    async def _send_v2(self, path: Path) -> None:
        _, mode, flags = form.SEND_V2.unpack(await self._take(form.SEND_V2.size))
        _refuse_flags(flags)
        await self._store(path, mode)

    async def _store(self, path: Path, mode: int) -> None:
        """Receive a file or link; a refusal is sent at once, and further data is skipped."""
        upload = _Upload(self.stream)
        try:
            store = _store_link if stat.S_ISLNK(mode) else _store_file
            await store(upload, path, mode)
        except _Refused as refusal:
            await self._fail(str(refusal))
            while await upload.next():
                pass
            return
        with _trying("utime failed"):
            os.utime(path, (upload.modified, upload.modified), follow_symlinks=False)
        await self.stream.write(form.packet(b"OKAY"))

    async def _take(self, n: int) -> bytes:
        return await self.stream.read_exactly(n)

    async def _fail(self, message: str) -> None:
        await self.stream.write(form.packet(b"FAIL", message.encode()))


@dataclass(slots=True)
class _Upload:
    """The content of a file that a peer sends."""

    stream: Stream
    modified: int = 0
    """The file's modification time in Unix seconds; set once `next` has returned b""."""

    async def next(self) -> bytes:
        """Return the next part, b"" at the end."""
        while True:
            head = await self.stream.read_exactly(form.HEADER.size)
            kind, number = form.HEADER.unpack(head)
            if kind == b"DONE":
                self.modified = number
                return b""
            if kind != b"DATA" or number > form.DATA_MAX:
                raise ProtocolViolation(f"{kind!r} of {number} bytes in a file's content")
            if number:
                return await self.stream.read_exactly(number)


async def _store_file(upload: _Upload, path: Path, mode: int) -> None:
    with _trying("couldn't create file"):
        path.parent.mkdir(mode=0o775, parents=True, exist_ok=True)
        if path.is_symlink():
            path.unlink()
        file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | _NEVER_WAIT, 0o666)
    try:
        with os.fdopen(file, "wb", buffering=0) as target:
            while data := await upload.next():
                with _trying("write failed"):
                    _write(target, data)
            # Like adbd, give everybody the owner's permissions.
            os.fchmod(file, mode & 0o700 | (mode & 0o700) >> 3 | (mode & 0o700) >> 6)
    except BaseException:
        path.unlink(missing_ok=True)  # never leave an incomplete file
        raise


async def _store_link(upload: _Upload, path: Path, mode: int) -> None:
    target = b""
    while data := await upload.next():
        target += data
        if len(target) > form.PATH_MAX:
            raise _Refused("symlink target too long")
    with _trying("couldn't create symlink"):
        path.parent.mkdir(mode=0o775, parents=True, exist_ok=True)
        path.unlink(missing_ok=True)
        path.symlink_to(_path(target))


def _path(raw: bytes) -> Path:
    return Path("/") / os.fsdecode(raw.split(b"\0", 1)[0])


def _look(look: Callable[[], os.stat_result]) -> os.stat_result | OSError:
    try:
        return look()
    except OSError as error:
        return error


def _read(file: int) -> bytes:
    with _trying("read failed"):
        return os.read(file, form.DATA_MAX)


def _write(target: BinaryIO, data: bytes) -> None:
    left = memoryview(data)
    while left:
        left = left[target.write(left) :]


def _refuse_flags(flags: int) -> None:
    # Compression, which our features don't offer.
    if flags:
        raise _Refused(f"unknown flags: {flags}")
