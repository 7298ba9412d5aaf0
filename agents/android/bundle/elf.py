"""Which machine an ELF file is for, and what pages a kernel may have that loads it.

Of the ELF header and the program headers of a 64-bit little-endian file: System V ABI, chapters
4 and 5.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from pathlib import Path
from typing import Final

MAGIC: Final = b"\x7fELF"
_CLASS64_LITTLE: Final = b"\x02\x01"
_HEADER: Final = struct.Struct("<16sHHIQQQIHHHHHH")
_SEGMENT: Final = struct.Struct("<IIQQQQQQ")
_LOAD: Final = 1


def objections(path: Path, machine: int, page_bytes: int) -> Iterator[str]:
    """Yield why a file can't be loaded on a machine with such pages; none if it is no ELF file.

    A segment is mapped in whole pages, so it has to ask for pages that large, and to lie at the
    same distance from a page's start in the file as in memory.
    """
    with path.open("rb") as file:
        head = file.read(_HEADER.size)
        if not head.startswith(MAGIC):
            return
        if len(head) < _HEADER.size or head[4:6] != _CLASS64_LITTLE:
            yield "it is no 64-bit little-endian ELF file"
            return
        fields = _HEADER.unpack(head)
        if fields[2] != machine:
            yield f"it is for machine {fields[2]}, not {machine}"
        place, size, count = fields[5], fields[9], fields[10]
        file.seek(place)
        table = file.read(size * count)
    if size < _SEGMENT.size or len(table) < size * count:
        yield "it is cut short"
        return
    for start in range(0, len(table), size):
        kind, _, offset, address, _, _, _, align = _SEGMENT.unpack_from(table, start)
        if kind == _LOAD and (align < page_bytes or (address - offset) % page_bytes):
            yield f"its segment at {address:#x} is not aligned for pages of {page_bytes} bytes"
