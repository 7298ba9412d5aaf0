"""Who is listed by an adb server, what has changed, and who is listed twice."""

from __future__ import annotations

import asyncio
import errno
from contextlib import aclosing
from pathlib import Path
from unittest.mock import AsyncMock, Mock

import pytest

from agents.remotes.adb.addresses import (
    AddressInvalid,
    HostPort,
    UnixSocket,
    parse_address,
)
from agents.remotes.adb.connections import Route, parse_devices, without_doubles
from agents.remotes.adb.server import SERVER_MARKER, AttachedServer, server_environment
from agents.remotes.adb.smart_socket import Connection
from agents.remotes.adb.tracker import Change, changes, track
from agents.remotes.remote import FaultKind, RemoteFault
from controller.contracts.errors import AdbUnavailable, PhoneClaimedTwice

HERE = HostPort("127.0.0.1", 5038)
THERE = HostPort("lab", 5037)


def test_devices() -> None:
    text = "R58M\tdevice\n10.0.0.2:5555\toffline\nX\tno permissions (see [http://x/])\n"
    assert parse_devices(text) == {
        "R58M": "device",
        "10.0.0.2:5555": "offline",
        "X": "no permissions (see [http://x/])",
    }
    assert parse_devices("") == {}


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


async def test_a_link_that_is_lost_in_any_way_is_the_server_s_end() -> None:
    lost = OSError(errno.EHOSTUNREACH, "No route to host")
    reader, writer = asyncio.StreamReader(), Mock(drain=AsyncMock(side_effect=lost))
    reader.set_exception(lost)
    connection = Connection(HERE, reader, writer)
    assert await connection.read() == b""
    for attempt in (connection.read_exactly(4), connection.write(b"host:version")):
        with pytest.raises(RemoteFault) as caught:
            await attempt
        assert caught.value.kind is FaultKind.ADB_SERVER


def test_one_route_a_phone() -> None:
    one, other = Route(HERE, "R58M"), Route(HERE, "10.0.0.2:5555")
    assert without_doubles([("R58M", one), ("VIRTUAL1", other), ("R58M", one)]) == {
        "R58M": one,
        "VIRTUAL1": other,
    }


@pytest.mark.parametrize("other", [Route(THERE, "R58M"), Route(HERE, "10.0.0.2:5555")])
def test_a_phone_with_two_routes_is_refused_naming_both(other: Route) -> None:
    one = Route(HERE, "R58M")
    with pytest.raises(PhoneClaimedTwice) as caught:
        without_doubles([("R58M", one), ("R58M", other)])
    assert str(one) in str(caught.value)
    assert str(other) in str(caught.value)


def test_addresses() -> None:
    assert parse_address("localhost:5038") == HostPort("localhost", 5038)
    assert parse_address("[::1]:5038") == HostPort("::1", 5038)
    assert parse_address("/run/adb:1/sock") == UnixSocket(Path("/run/adb:1/sock"))
    assert str(HERE) == "127.0.0.1:5038"
    assert str(UnixSocket(Path("/run/adb.sock"))) == "/run/adb.sock"


@pytest.mark.parametrize(
    "text", ["", "5038", ":5038", "host:", "host:0", "host:65536", "host:x", "/x/", "/\0"]
)
def test_what_is_no_address(text: str) -> None:
    with pytest.raises(AddressInvalid, match="Write HOST:PORT"):
        parse_address(text)


ROOT = Path(__file__).parents[3]


@pytest.mark.parametrize("folder", ["agents", "controller", "deploy", "tests"])
def test_nothing_starts_a_server_that_looks_for_emulators(folder: str) -> None:
    for path in (ROOT / folder).rglob("*.py"):
        source = path.read_text()
        is_sh = 'executable="/bin/sh"' in source  # called as a server is, and none
        if ('"nodaemon"' in source or '"fork-server"' in source) and not is_sh:
            assert '"ADB_EMU": "0"' in source or "server_environment(" in source, path


def test_a_server_gets_nothing_of_the_user_s_adb() -> None:
    users = {
        "PATH": "/bin",
        "HOME": "/home/me",
        "ANDROID_SERIAL": "R58M",
        "ADB_VENDOR_KEYS": "/x",
        "ANDROID_ADB_SERVER_PORT": "5037",
    }
    own = server_environment(users, Path("/agent/adb"), None)
    assert own["PATH"] == "/bin"
    assert own["HOME"] == own[SERVER_MARKER] == "/agent/adb"
    assert own["ADB_EMU"] == "0", "else it looks for emulators, and takes other users' for phones"
    assert not {"ANDROID_SERIAL", "ADB_VENDOR_KEYS", "ANDROID_ADB_SERVER_PORT"} & own.keys()
    with_key = server_environment(users, Path("/agent/adb"), Path("/home/me/.android"))
    assert with_key["ADB_VENDOR_KEYS"] == "/home/me/.android"
