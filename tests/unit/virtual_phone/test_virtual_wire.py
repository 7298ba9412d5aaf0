"""Messages on the wire: what is read back, and what is refused."""

from __future__ import annotations

import asyncio

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agents.virtual_phone.errors import ProtocolViolation
from agents.virtual_phone.wire import (
    HEADER,
    VERSION_CHECKSUM,
    VERSION_NO_CHECKSUM,
    Command,
    Message,
    decode_header,
    encode,
    read_message,
)

WORDS = st.integers(0, 0xFFFFFFFF)
MESSAGES = st.builds(Message, st.sampled_from(Command), WORDS, WORDS, st.binary(max_size=300))
VERSIONS = st.sampled_from([VERSION_CHECKSUM, VERSION_NO_CHECKSUM])


def _read(data: bytes, version: int, max_payload: int = 300) -> Message:
    async def read() -> Message:
        reader = asyncio.StreamReader()
        reader.feed_data(data)
        reader.feed_eof()
        return await read_message(reader, max_payload, version)

    return asyncio.run(read())


def test_the_published_example_of_a_header() -> None:
    # protocol.txt: CNXN is 0x4e584e43, the magic its complement; "host::\0" sums to 0x232.
    data = encode(Message(Command.CNXN, VERSION_CHECKSUM, 4096, b"host::\0"), VERSION_CHECKSUM)
    assert data[:4] == b"CNXN"
    assert HEADER.unpack(data[:24])[3:] == (7, 0x232, 0xB1A7B1BC)
    assert data[24:] == b"host::\0"


@given(MESSAGES, VERSIONS)
def test_what_is_written_is_read(message: Message, version: int) -> None:
    assert _read(encode(message, version), version) == message


@given(MESSAGES.filter(lambda message: bool(message.payload)), st.integers(0))
def test_a_changed_payload_does_not_pass_the_checksum(message: Message, where: int) -> None:
    data = bytearray(encode(message, VERSION_CHECKSUM))
    data[24 + where % len(message.payload)] ^= 0x10
    with pytest.raises(ProtocolViolation, match="checksum"):
        _read(bytes(data), VERSION_CHECKSUM)
    assert _read(bytes(data), VERSION_NO_CHECKSUM).payload == bytes(data[24:])


@given(MESSAGES, st.integers(0, 31))
def test_a_flipped_bit_of_the_command_is_refused(message: Message, bit: int) -> None:
    data = bytearray(encode(message, VERSION_NO_CHECKSUM))
    data[bit // 8] ^= 1 << bit % 8
    with pytest.raises(ProtocolViolation, match="magic"):
        _read(bytes(data), VERSION_NO_CHECKSUM)


@given(WORDS.filter(lambda word: word not in set(Command)))
def test_an_unknown_command_is_refused(command: int) -> None:
    header = HEADER.pack(command, 0, 0, 0, 0, command ^ 0xFFFFFFFF)
    with pytest.raises(ProtocolViolation, match="unknown command"):
        decode_header(header, 300)


@given(st.integers(301, 0xFFFFFFFF))
def test_a_payload_beyond_what_was_agreed_is_refused_by_its_header(length: int) -> None:
    header = HEADER.pack(Command.WRTE, 1, 1, length, 0, Command.WRTE ^ 0xFFFFFFFF)
    with pytest.raises(ProtocolViolation, match="at most 300"):
        decode_header(header, 300)


@given(MESSAGES, st.data())
def test_half_a_message_is_an_end(message: Message, data: st.DataObject) -> None:
    whole = encode(message, VERSION_NO_CHECKSUM)
    part = whole[: data.draw(st.integers(0, len(whole) - 1))]
    with pytest.raises(asyncio.IncompleteReadError):
        _read(part, VERSION_NO_CHECKSUM)
