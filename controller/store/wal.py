"""Losses in a write-ahead log: SQLite drops everything behind its first damaged frame.

That is right after a power cut in a write, but silent if the frame is damaged. Format:
https://www.sqlite.org/fileformat2.html#the_write_ahead_log
"""

from __future__ import annotations

import struct
import sys
from array import array
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from controller.platform.locks import is_locked

HEADER = struct.Struct(">8I")
FRAME = struct.Struct(">6I")
MAGIC = 0x377F0682
"""The last bit means that checksums are over big-endian words."""
INDEX = struct.Struct("=16xI12x8s")
"""Fields of the shared-memory file: the last committed frame, and the salts of its log."""


@dataclass(frozen=True, slots=True)
class _Frame:
    salts: bytes
    is_commit: bool
    is_whole: bool
    """Whether its checksum, which continues that of the previous frame, is right."""


def lost_commits(path: Path) -> str | None:
    """Return what is wrong with the log of a store that no process writes to, or None."""
    log = _content(path.with_name(f"{path.name}-wal"))
    index = _content(path.with_name(f"{path.name}-shm"))
    last, salts = INDEX.unpack_from(index) if len(index) >= INDEX.size else (0, b"")
    if len(log) < HEADER.size:
        return "it is cut off" if last and any(salts) else None
    frames = list(_frames(log))
    if not _is_header(log):
        return "its header is damaged" if frames else None
    ours = log[16:24]
    whole = next((n for n, frame in enumerate(frames) if not frame.is_whole), len(frames))
    if any(frame.is_commit and frame.salts == ours for frame in frames[whole:]):
        return f"frame {whole + 1} of {len(frames)} is damaged"
    if salts == ours and last > whole:
        return f"it is cut off after frame {whole} of {last}"
    return None


def lock_of(path: Path) -> Path:
    """Return the file that the only writer of a store keeps locked."""
    return path.with_name(f"{path.name}.lock")


def is_being_written(path: Path) -> bool:
    """Return whether a store has a running writer; True if its lock can't be asked."""
    try:
        return is_locked(lock_of(path))
    except OSError:  # a log that is being written must not be called damaged
        return True


def _content(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except FileNotFoundError:
        return b""


def _is_header(log: bytes) -> bool:
    magic, *_, first, second = HEADER.unpack_from(log)
    seen = _checksum(log[:24], (0, 0), big=bool(magic & 1))
    return magic & ~1 == MAGIC and seen == (first, second)


def _frames(log: bytes) -> Iterator[_Frame]:
    magic, _, page, *_, first, second = HEADER.unpack_from(log)
    size = page if 512 <= page <= 65536 else 4096
    so_far, whole, ours = (first, second), True, log[16:24]
    for at in range(HEADER.size, len(log) - FRAME.size - size + 1, FRAME.size + size):
        _, pages, *_, first, second = FRAME.unpack_from(log, at)
        salts = log[at + 8 : at + 16]
        if whole:
            said = log[at : at + 8] + log[at + FRAME.size : at + FRAME.size + size]
            so_far = _checksum(said, so_far, big=bool(magic & 1))
            whole = salts == ours and so_far == (first, second)
        yield _Frame(salts, pages > 0, whole)


def _checksum(data: bytes, so_far: tuple[int, int], *, big: bool) -> tuple[int, int]:
    words = array("I", data)
    if big == (sys.byteorder == "little"):
        words.byteswap()
    first, second = so_far
    for even, odd in zip(words[::2], words[1::2], strict=True):
        first = (first + even + second) & 0xFFFFFFFF
        second = (second + odd + first) & 0xFFFFFFFF
    return first, second
