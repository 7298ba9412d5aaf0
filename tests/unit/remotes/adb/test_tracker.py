"""What has changed in an adb server's list of phones."""

from __future__ import annotations

import asyncio
from contextlib import aclosing

import pytest

from agents.remotes.adb.addresses import HostPort
from agents.remotes.adb.server import AttachedServer
from agents.remotes.adb.tracker import Change, changes, track
from controller.contracts.errors import AdbUnavailable

HERE = HostPort("127.0.0.1", 5038)


def test_changes() -> None:
    before = {"A": "device", "B": "device", "C": "offline"}
    after = {"B": "device", "C": "device", "D": "unauthorized"}
    assert changes(before, after) == [
        Change("A", None),
        Change("C", "device"),
        Change("D", "unauthorized"),
    ]
    assert changes(after, after) == []


@pytest.mark.parametrize("answer", [b"HTTP", b"FAIL0014unknown host service"])
async def test_a_server_that_tells_nothing_of_phones_is_complained_of(answer: bytes) -> None:
    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        request = await reader.readexactly(int(await reader.readexactly(4), 16))
        writer.write(b"OKAY00040029" if request == b"host:version" else answer)
        writer.close()

    server = await asyncio.start_server(serve, HERE.host)
    async with server:
        address = HostPort(HERE.host, server.sockets[0].getsockname()[1])
        with pytest.raises(AdbUnavailable, match=f"follow the adb server at {address}"):
            await anext(track(AttachedServer(address)))


async def test_what_has_passed_when_it_is_read_is_not_told() -> None:
    told, passed = asyncio.Event(), asyncio.Event()

    def listed(*states: str) -> bytes:
        texts = [f"A\t{state}\n".encode() for state in states]
        return b"".join(b"%04x" % len(text) + text for text in texts)

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        request = await reader.readexactly(int(await reader.readexactly(4), 16))
        if request == b"host:version":
            writer.write(b"OKAY00040029")
        else:
            # What adb 36 lists as a phone connects that asks for a key: within 5 ms.
            writer.write(b"OKAY" + listed("offline", "authorizing", "offline", "device"))
            await told.wait()
            writer.write(listed("offline", "device", "unauthorized"))
            await writer.drain()
            passed.set()
        writer.close()

    server = await asyncio.start_server(serve, HERE.host)
    async with server:
        address = HostPort(HERE.host, server.sockets[0].getsockname()[1])
        async with aclosing(track(AttachedServer(address))) as found:
            assert await anext(found) == Change("A", "device")
            told.set()
            await passed.wait()
            assert await anext(found) == Change("A", "unauthorized")
            assert await anext(found) == Change("A", None, went_as="unauthorized")
