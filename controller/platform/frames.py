"""Compressed frames, of which the content of an artefact consists on its way and on disk.

A frame is a header of 12 bytes (big-endian: bytes of the compressed content, bytes of the content,
its CRC-32) and at most FRAME_BYTES of content, compressed with Zstandard (RFC 8878). Every frame of
a file but the last has exactly FRAME_BYTES, so any byte of it is found without what comes before.
"""

from __future__ import annotations

import struct
import zlib
from functools import cache
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    import pyarrow as pa

FRAME_BYTES: Final = 2**16
"""Of content: a frame fits into a message that Ray passes on without its object store, 100 KiB."""
LONGEST: Final = FRAME_BYTES + 1024
"""Bytes that a frame's compressed content has at most: Zstandard stores what can't be compressed.
"""
HEADER: Final = struct.Struct(">III")
LEVEL: Final = 3


class FrameDamaged(Exception):
    """A frame that is not one, or whose content is not what was packed."""


def packed(content: bytes) -> bytes:
    """Return a frame; content: at most FRAME_BYTES."""
    compressed: bytes = _codec().compress(content, asbytes=True)
    return HEADER.pack(len(compressed), len(content), zlib.crc32(content)) + compressed


def unpacked(frame: bytes) -> bytes:
    """Return a frame's content; raises FrameDamaged."""
    if len(frame) < HEADER.size:
        raise FrameDamaged("it is shorter than its header")
    compressed_bytes, size = lengths_of(frame[: HEADER.size])
    if len(frame) != HEADER.size + compressed_bytes:
        raise FrameDamaged("its length is not what its header says")
    try:
        content: bytes = _codec().decompress(
            frame[HEADER.size :], decompressed_size=size, asbytes=True
        )
    except (OSError, ValueError, MemoryError) as error:
        raise FrameDamaged("it cannot be decompressed") from error
    if len(content) != size or zlib.crc32(content) != HEADER.unpack_from(frame)[2]:
        raise FrameDamaged("its checksum does not match")
    return content


def lengths_of(header: bytes) -> tuple[int, int]:
    """Return the bytes of the compressed content and of the content; raises FrameDamaged."""
    compressed_bytes, size, _ = HEADER.unpack(header)
    if not 0 < size <= FRAME_BYTES or not 0 < compressed_bytes <= LONGEST:
        raise FrameDamaged("its header says lengths that no frame has")
    return compressed_bytes, size


@cache
def _codec() -> pa.Codec:
    # Late: pyarrow, which takes long to load.
    import pyarrow as pa

    return pa.Codec("zstd", compression_level=LEVEL)
