"""The formats of the sync service's answers (AOSP file_sync_protocol.h), little endian."""

from __future__ import annotations

import errno
import os
import struct

HEADER = struct.Struct("<4sI")
"""An id and the length of the following data (or another number)."""
DATA_MAX = 1 << 16
"""Bytes of a file in one DATA packet."""
PATH_MAX = 1024
SEND_V2 = struct.Struct("<4sII")
"""SND2, mode, flags."""
RECEIVE_V2 = struct.Struct("<4sI")
"""RCV2, flags."""

_STAT_V1 = struct.Struct("<4s3I")
_DENT_V1 = struct.Struct("<4s4I")
_STAT_V2 = struct.Struct("<4sIQQIIIIQqqq")
_DENT_V2 = struct.Struct("<4sIQQIIIIQqqqI")
_WORD = 0xFFFFFFFF

# Linux's numbers on both ends; AOSP translates them by name on other systems.
_KNOWN_ERRORS = frozenset(errno.errorcode)


def stat_v1(found: os.stat_result | OSError) -> bytes:
    """Answer STAT: mode, size, time; all 0 if there is no such file."""
    if isinstance(found, OSError):
        return _STAT_V1.pack(b"STAT", 0, 0, 0)
    return _STAT_V1.pack(b"STAT", found.st_mode, found.st_size & _WORD, int(found.st_mtime))


def stat_v2(kind: bytes, found: os.stat_result | OSError) -> bytes:
    """Answer STA2 or LST2: an error number, or all facts of a file."""
    return _STAT_V2.pack(kind, *_facts(found))


def entry_v1(name: bytes, found: os.stat_result | OSError) -> bytes:
    """Answer LIST with one directory entry; entries that can't be read are left out."""
    if isinstance(found, OSError):
        return b""
    size, time = found.st_size & _WORD, int(found.st_mtime)
    return _DENT_V1.pack(b"DENT", found.st_mode, size, time, len(name)) + name


def entry_v2(name: bytes, found: os.stat_result | OSError) -> bytes:
    """Answer LIS2 with one directory entry."""
    return _DENT_V2.pack(b"DNT2", *_facts(found), len(name)) + name


def end_of_list(v2: bool) -> bytes:
    """Return the end of a list."""
    return b"DONE".ljust((_DENT_V2 if v2 else _DENT_V1).size, b"\0")


def packet(kind: bytes, data: bytes = b"") -> bytes:
    """Return a packet: DATA, OKAY, FAIL, DONE."""
    return HEADER.pack(kind, len(data)) + data


def _facts(found: os.stat_result | OSError) -> tuple[int, ...]:
    if isinstance(found, OSError):
        number = found.errno if found.errno in _KNOWN_ERRORS else errno.EIO
        return (number or errno.EIO, *(0,) * 10)
    return (
        0,
        found.st_dev,
        found.st_ino,
        found.st_mode,
        found.st_nlink,
        found.st_uid,
        found.st_gid,
        found.st_size,
        int(found.st_atime),
        int(found.st_mtime),
        int(found.st_ctime),
    )
