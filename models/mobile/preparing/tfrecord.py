"""Writing TensorFlow's record files (its record_writer and crc.h have the format)."""

from __future__ import annotations

import struct
import zlib
from collections.abc import Iterable
from pathlib import Path
from typing import Final

_CASTAGNOLI: Final = 0x82F63B78
_WORD: Final = 0xFFFFFFFF
_MASK: Final = 0xA282EAD8


def write_records(path: Path, records: Iterable[bytes]) -> int:
    """Write records, compressed as a whole by zlib as the suite's are; return their number.

    Holds one record at a time. Raises OSError.
    """
    number, packer = 0, zlib.compressobj()
    with path.open("wb") as file:
        for record in records:
            length = struct.pack("<Q", len(record))
            framed = length + masked_checksum(length) + record + masked_checksum(record)
            file.write(packer.compress(framed))
            number += 1
        file.write(packer.flush())
    return number


def masked_checksum(content: bytes) -> bytes:
    """Return four bytes: CRC-32C, turned by 15 bits, plus a constant."""
    checksum = crc32c(content)
    turned = (checksum >> 15 | checksum << 17) & _WORD
    return struct.pack("<I", (turned + _MASK) & _WORD)


def crc32c(content: bytes) -> int:
    """Return the checksum of RFC 3720, appendix B.4."""
    found = _WORD
    for byte in content:
        found = _TABLE[(found ^ byte) & 0xFF] ^ found >> 8
    return found ^ _WORD


def _entry(byte: int) -> int:
    for _ in range(8):
        byte = byte >> 1 ^ (_CASTAGNOLI if byte & 1 else 0)
    return byte


_TABLE: Final = tuple(map(_entry, range(256)))
