"""Messages of the adb wire protocol: framing and checks (AOSP packages/modules/adb/protocol.txt).

A message is a header of six little-endian 32-bit words (command, two arguments, payload length,
payload checksum, command ^ 0xFFFFFFFF) and its payload.
"""

from __future__ import annotations

import enum
import struct
from dataclasses import dataclass
from typing import Protocol

from agents.virtual_phone.errors import ProtocolViolation

VERSION_CHECKSUM = 0x01000000
"""The first protocol version: every payload has a checksum."""
VERSION_NO_CHECKSUM = 0x01000001
"""The first version without checksums."""
MIN_MAX_PAYLOAD = 4096
"""Bytes that every daemon and server can take (adb before Android 7)."""
MAX_PAYLOAD = 1 << 20
"""Bytes that present adb sends in one message."""

HEADER = struct.Struct("<6I")
_MASK = 0xFFFFFFFF


class Command(enum.IntEnum):
    """The command of a message: four ASCII letters, read as a little-endian word."""

    SYNC = 0x434E5953
    CNXN = 0x4E584E43
    AUTH = 0x48545541
    OPEN = 0x4E45504F
    OKAY = 0x59414B4F
    CLSE = 0x45534C43
    WRTE = 0x45545257
    STLS = 0x534C5453


@dataclass(frozen=True, slots=True)
class Message:
    """A message; the meaning of the arguments depends on the command."""

    command: Command
    arg0: int
    arg1: int
    payload: bytes = b""


@dataclass(frozen=True, slots=True)
class Header:
    """The checked first 24 bytes of a message."""

    command: Command
    arg0: int
    arg1: int
    length: int
    checksum: int


class ByteSource(Protocol):
    """A source of messages; asyncio's StreamReader is one."""

    async def readexactly(self, n: int) -> bytes:
        """Return n bytes; called for each header and each payload.

        Raises asyncio.IncompleteReadError if the peer ends before.
        """
        ...


def checksum(payload: bytes) -> int:
    """Return the sum of the payload's bytes, the protocol's `data_check`."""
    return sum(payload) & _MASK


def encode(message: Message, version: int) -> bytes:
    """Return a message's bytes for a peer that speaks this protocol version."""
    summed = checksum(message.payload) if version < VERSION_NO_CHECKSUM else 0
    header = HEADER.pack(
        message.command,
        message.arg0,
        message.arg1,
        len(message.payload),
        summed,
        message.command ^ _MASK,
    )
    return header + message.payload


def decode_header(data: bytes, max_payload: int) -> Header:
    """Parse and check a header of 24 bytes.

    Raises ProtocolViolation if the magic is wrong, the command unknown or the payload longer than
    agreed.
    """
    command, arg0, arg1, length, summed, magic = HEADER.unpack(data)
    if command ^ _MASK != magic:
        raise ProtocolViolation(f"magic {magic:#x} does not go with command {command:#x}")
    if command not in set(Command):
        raise ProtocolViolation(f"unknown command {command:#x}")
    if length > max_payload:
        raise ProtocolViolation(f"payload of {length} bytes, at most {max_payload} were agreed")
    return Header(Command(command), arg0, arg1, length, summed)


async def read_message(source: ByteSource, max_payload: int, version: int) -> Message:
    """Read one message; the checksum is checked if the agreed version has one.

    Raises ProtocolViolation, or asyncio.IncompleteReadError if the peer ends.
    """
    header = decode_header(await source.readexactly(HEADER.size), max_payload)
    payload = await source.readexactly(header.length) if header.length else b""
    if version < VERSION_NO_CHECKSUM and checksum(payload) != header.checksum:
        raise ProtocolViolation(f"checksum {header.checksum:#x} does not go with the payload")
    return Message(header.command, header.arg0, header.arg1, payload)
