"""A virtual phone's daemon under 10,000 malformed and hostile conversations."""

from __future__ import annotations

import asyncio
import os
import struct
from collections.abc import Callable
from dataclasses import dataclass
from random import Random

import psutil
import pytest

from agents.virtual_phone import wire
from agents.virtual_phone.phone import VirtualPhone
from agents.virtual_phone.wire import Command, Message, encode
from tests.support.waiting import PATIENCE_S, until

pytestmark = pytest.mark.integration
CONVERSATIONS = 10_000
AT_ONCE = 12
GROWTH_BYTES = 64 << 20
"""The two largest messages of AT_ONCE peers, and what the allocator keeps."""

Tell = Callable[[Random], bytes]
HELLO = encode(
    Message(Command.CNXN, wire.VERSION_NO_CHECKSUM, wire.MAX_PAYLOAD, b"host::features=shell_v2"),
    wire.VERSION_CHECKSUM,
)


def _message(command: Command, arg0: int, arg1: int, payload: bytes = b"") -> bytes:
    return encode(Message(command, arg0, arg1, payload), wire.VERSION_NO_CHECKSUM)


def _noise(random: Random) -> bytes:
    return random.randbytes(random.randint(1, 200))


def _noisy_header(random: Random) -> bytes:
    command = random.choice([*Command, random.getrandbits(32)])
    magic = random.choice([command ^ 0xFFFFFFFF, random.getrandbits(32)])
    length = random.choice([0, 5, wire.MAX_PAYLOAD + 1, 0xFFFFFFFF, random.getrandbits(32)])
    words = [random.getrandbits(32) for _ in range(3)]
    return struct.pack("<6I", command, words[0], words[1], length, words[2], magic) + _noise(random)


def _half_hello(random: Random) -> bytes:
    return HELLO[: random.randint(0, len(HELLO) - 1)]


def _bad_hello(random: Random) -> bytes:
    version, size = random.getrandbits(32), random.choice([0, 1, 4095, random.getrandbits(32)])
    return encode(Message(Command.CNXN, version, size, _noise(random)), random.getrandbits(1))


def _wrong_order(random: Random) -> bytes:
    command = random.choice([c for c in Command if c is not Command.CNXN])
    return _message(command, random.getrandbits(2), random.getrandbits(2), _noise(random))


def _unasked(random: Random) -> bytes:
    commands = [Command.OKAY, Command.WRTE, Command.CLSE, Command.AUTH, Command.STLS]
    return b"".join(
        _message(random.choice(commands), random.getrandbits(3), random.getrandbits(3), b"x")
        for _ in range(random.randint(1, 20))
    )


def _odd_destinations(random: Random) -> bytes:
    names = [
        b"",
        b"\0",
        b"tcp:",
        b"tcp:99999",
        b"tcp:x",
        b"reverse:",
        b"reverse:forward:;",
        b"sync",
    ]
    names += [b"localabstract:\0", b"local:/nothing", b"\xff\xfe", b"reverse:forward:tcp:x;y"]
    names += [b"tcp:" + 5000 * b"9", b"reverse:list-forward", b"reverse:forward:tcp:0;\xff"]
    return b"".join(
        _message(Command.OPEN, random.randint(0, 30), 0, random.choice(names))
        for _ in range(random.randint(1, 30))
    )


def _in_sync(random: Random) -> bytes:
    ids = [b"STAT", b"LST2", b"LIST", b"RECV", b"RCV2", b"SEND", b"SND2", b"DATA", b"QUIT", b"????"]
    request = random.choice(ids) + struct.pack("<I", random.choice([0, 4, 1024, 1 << 31]))
    return request + random.choice([b"/tmp", b"/x,3", b"\0/\xff", _noise(random)])


def _in_upload(random: Random) -> bytes:
    paths = [b"/data/local/tmp/x,33188", b"/data/local/tmp,33188", b"/data/local/tmp/l,41471"]
    path = random.choice([*paths, b"/data/local/tmp/y," + 1000 * b"9", b",1", b"\0,33188"])
    part = random.choice([b"DATA", b"DONE", b"????"]) + struct.pack("<I", random.getrandbits(17))
    return b"SEND" + struct.pack("<I", len(path)) + path + part + _noise(random)


def _in_shell(random: Random) -> bytes:
    length = random.choice([0, 3, 1 << 31])
    return struct.pack("<BI", random.getrandbits(8), length) + _noise(random)


def _impatient(random: Random) -> bytes:
    chunk = random.randbytes(1 << 10) * 256
    return chunk + (random.randint(1, 200) * _message(Command.WRTE, 1, 1, chunk))


@dataclass(frozen=True, slots=True)
class Conversation:
    """What a peer says; `inside` follows as a WRTE when the stream to `service` is open."""

    said: bytes
    service: bytes = b""
    inside: bytes = b""


def _alone(tell: Tell, *, greeted: bool) -> Callable[[Random], Conversation]:
    return lambda random: Conversation((HELLO if greeted else b"") + tell(random))


def _within(service: bytes, tell: Tell) -> Callable[[Random], Conversation]:
    return lambda random: Conversation(HELLO, service, tell(random))


OUTSIDE = (_noise, _noisy_header, _half_hello, _bad_hello, _wrong_order)
AFTER_HELLO = (_noise, _noisy_header, _wrong_order, _unasked, _odd_destinations)
KINDS = [
    *(_alone(tell, greeted=False) for tell in OUTSIDE),
    *(_alone(tell, greeted=True) for tell in AFTER_HELLO),
    *(_within(b"sync:\0", tell) for tell in (_in_sync, _in_upload)),
]
STARTING_PROCESSES = [
    _within(b"shell,v2,raw:cat\0", _in_shell),
    _within(b"exec:sleep 9\0", _impatient),
]


async def _converse(port: int, talk: Conversation, *, patient: bool) -> None:
    """Say it and end; the phone is to end, too."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    try:
        async with asyncio.timeout(PATIENCE_S):
            writer.write(talk.said)
            if talk.service:
                await _hear(reader, Command.CNXN)
                writer.write(_message(Command.OPEN, 1, 0, talk.service))
                await _hear(reader, Command.OKAY)
                writer.write(_message(Command.WRTE, 1, 1, talk.inside))
            if patient:
                writer.write_eof()
                while await reader.read(1 << 16):
                    pass
    except TimeoutError:
        raise
    except (OSError, asyncio.IncompleteReadError):
        return  # the phone was faster
    finally:
        writer.transport.abort()


async def _hear(reader: asyncio.StreamReader, command: Command) -> None:
    heard = await wire.read_message(reader, wire.MAX_PAYLOAD, wire.VERSION_NO_CHECKSUM)
    assert heard.command is command


async def _ask_properly(port: int) -> bytes:
    """Run a command as an adb server does; return its output."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(HELLO)
    await _hear(reader, Command.CNXN)
    writer.write(_message(Command.OPEN, 1, 0, b"exec:echo still here\0"))
    output = b""
    while True:
        heard = await wire.read_message(reader, wire.MAX_PAYLOAD, wire.VERSION_NO_CHECKSUM)
        if heard.command is Command.CLSE:
            writer.transport.abort()
            return output
        output += heard.payload
        if heard.command is Command.WRTE:
            writer.write(_message(Command.OKAY, 1, heard.arg0))


async def test_hostile_peers_end_and_harm_nobody() -> None:
    random = Random(20)
    async with VirtualPhone(
        "midrange", cores=[min(os.sched_getaffinity(0))], any_key=True
    ) as phone:
        port = phone.facts.port
        (first,) = psutil.Process(phone.facts.pid).children()
        (daemon,) = first.children()
        assert await _ask_properly(port) == b"still here\n"
        before = daemon.memory_info().rss

        async def peer(share: int) -> None:
            for number in range(share):
                kind = random.choice(STARTING_PROCESSES if number % 20 == 0 else KINDS)
                await _converse(port, kind(random), patient=random.random() < 0.9)

        async def idle() -> bool:
            status = await phone.status()
            return not status.processes and not status.connections

        async with asyncio.TaskGroup() as peers:
            for _ in range(AT_ONCE):
                peers.create_task(peer(-(-CONVERSATIONS // AT_ONCE)))
        assert await _ask_properly(port) == b"still here\n"
        assert daemon.is_running()
        assert daemon.memory_info().rss - before < GROWTH_BYTES
        log = (phone.folder / "phone.log").read_text()
        assert "Traceback" not in log
        await until(idle, "its processes and connections have ended")
