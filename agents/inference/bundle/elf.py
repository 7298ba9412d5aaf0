"""ELF files: their machine, and the kernels that can load them.

Reads the ELF header, the program headers and the notes of a 64-bit little-endian file: System V
ABI, chapters 4 and 5; for the ABI tag: Linux Standard Base, "ABI note tag".
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

MAGIC: Final = b"\x7fELF"
Version = tuple[int, int, int]
_CLASS64_LITTLE: Final = b"\x02\x01"
_HEADER: Final = struct.Struct("<16sHHIQQQIHHHHHH")
_SEGMENT: Final = struct.Struct("<IIQQQQQQ")
_NOTE_HEADER: Final = struct.Struct("<III")
_ABI_TAG: Final = struct.Struct("<IIII")
_LOAD, _NOTE = 1, 4
_GNU: Final = b"GNU\0"
_ABI_TAG_TYPE, _LINUX = 1, 0


class _Unreadable(ValueError):
    """An ELF file of another class, or a truncated one."""


@dataclass(frozen=True, slots=True)
class _Segment:
    kind: int
    offset: int
    address: int
    file_bytes: int
    align: int


def objections(path: Path, machine: int, page_bytes: int) -> Iterator[str]:
    """Yield why a machine with this page size can't load a file; nothing if it is not an ELF file.

    Segments are mapped in whole pages, so a segment must be aligned to pages of this size, and have
    the same offset within a page in the file as in memory.
    """
    try:
        found = _read(path)
    except _Unreadable as error:
        yield str(error)
        return
    if found is None:
        return
    own, segments = found
    if own != machine:
        yield f"it is for machine {own}, not {machine}"
    for one in segments:
        misplaced = (one.address - one.offset) % page_bytes
        if one.kind == _LOAD and (one.align < page_bytes or misplaced):
            yield f"its segment at {one.address:#x} is not aligned for pages of {page_bytes} bytes"


def oldest_kernel(path: Path) -> Version | None:
    """Return the oldest Linux that a file declares support for, or None."""
    try:
        found = _read(path)
    except _Unreadable:
        return None
    notes = [one for one in found[1] if one.kind == _NOTE] if found else []
    with path.open("rb") as file:
        for one in notes:
            file.seek(one.offset)
            if version := _abi_tag(file.read(one.file_bytes), max(one.align, 4)):
                return version
    return None


def _abi_tag(notes: bytes, align: int) -> Version | None:
    """Return the version in a segment's ABI tag; None without one, or for a system other than
    Linux."""
    place = 0
    while place + _NOTE_HEADER.size <= len(notes):
        name_bytes, content_bytes, kind = _NOTE_HEADER.unpack_from(notes, place)
        start = place + _NOTE_HEADER.size
        content = start + _rounded_up(name_bytes, 4)
        tagged = (notes[start : start + name_bytes], kind) == (_GNU, _ABI_TAG_TYPE)
        if tagged and content + _ABI_TAG.size <= len(notes):
            system, major, minor, patch = _ABI_TAG.unpack_from(notes, content)
            return (major, minor, patch) if system == _LINUX else None
        place = content + _rounded_up(content_bytes, align)
    return None


def _rounded_up(size: int, to: int) -> int:
    return -(-size // to) * to


def _read(path: Path) -> tuple[int, list[_Segment]] | None:
    """Return a file's machine and segments; None if it is not an ELF file. Raises _Unreadable."""
    with path.open("rb") as file:
        head = file.read(_HEADER.size)
        if not head.startswith(MAGIC):
            return None
        if len(head) < _HEADER.size or head[4:6] != _CLASS64_LITTLE:
            raise _Unreadable("it is no 64-bit little-endian ELF file")
        fields = _HEADER.unpack(head)
        place, size, count = fields[5], fields[9], fields[10]
        file.seek(place)
        table = file.read(size * count)
    if size < _SEGMENT.size or len(table) < size * count:
        raise _Unreadable("it is cut short")
    segments = []
    for start in range(0, len(table), size):
        kind, _, offset, address, _, stored, _, align = _SEGMENT.unpack_from(table, start)
        segments.append(_Segment(kind, offset, address, stored, align))
    return fields[2], segments
