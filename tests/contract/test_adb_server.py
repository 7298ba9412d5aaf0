"""The agent's own adb server, somebody else's, and who is listed there."""

from __future__ import annotations

import socket
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import aclosing
from pathlib import Path

import psutil
import pytest

from agents.android.virtual import faults
from agents.transports.adb import server as server_module
from agents.transports.adb.recovery import connect, state_of
from agents.transports.adb.server import (
    SERVER_MARKER,
    AttachedServer,
    PortTaken,
    PrivateServer,
)
from agents.transports.adb.smart_socket import Address, ask
from agents.transports.adb.tracker import Change, track
from agents.transports.remote import FaultKind, RemoteFault
from controller.contracts.errors import AdbMissing, AdbUnavailable
from controller.contracts.processes import marked_processes
from tests.support.remotes import Phone
from tests.support.virtual_phone import RunningPhone
from tests.support.waiting import PATIENCE_S

pytestmark = pytest.mark.integration


def processes_of(server: PrivateServer) -> list[psutil.Process]:
    return list(marked_processes(SERVER_MARKER, str(server.folder)))


@pytest.fixture
async def own(tmp_path: Path) -> AsyncIterator[PrivateServer]:
    server = await PrivateServer.start(tmp_path / "adb")
    yield server
    await server.stop()
    assert processes_of(server) == []


async def test_it_is_found_again_and_ends_when_told(own: PrivateServer) -> None:
    (process,) = processes_of(own)
    again = await PrivateServer.start(own.folder)
    assert again == own
    assert processes_of(own) == [process]
    assert process.ppid() != psutil.Process().pid, "it outlives its agent"


async def test_it_listens_on_loopback_only_and_never_where_adb_does(own: PrivateServer) -> None:
    (process,) = processes_of(own)
    listening = [c.laddr for c in process.net_connections("tcp") if c.status == "LISTEN"]
    assert [(a.ip, a.port) for a in listening] == [("127.0.0.1", own.address.port)]
    assert own.address.port != 5037


async def test_its_keys_are_its_own(own: PrivateServer) -> None:
    await ask(own.address, "host:version")
    assert (own.folder / ".android" / "adbkey").is_file()


async def test_killed_it_comes_back_on_the_same_port(own: PrivateServer) -> None:
    (process,) = processes_of(own)
    process.kill()
    psutil.wait_procs([process], timeout=PATIENCE_S)
    assert await own.ready() == own.address
    assert processes_of(own) != [process]
    await ask(own.address, "host:version")


async def test_frozen_it_is_replaced(own: PrivateServer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(server_module, "ANSWER_S", 0.5)
    (process,) = processes_of(own)
    process.suspend()
    await own.ready()
    assert processes_of(own) != [process]


async def test_a_port_that_is_in_use(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as other:
        port = other.getsockname()[1]
        with pytest.raises(PortTaken, match=f"{port}: the port is in use; name another"):
            await PrivateServer.start(tmp_path / "adb", port)


async def test_without_adb(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(server_module, "find_spec", lambda name: None)
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(AdbMissing, match=r"pip install .*adbutils"):
        await PrivateServer.start(tmp_path / "adb")


async def test_somebody_else_s_server(own: PrivateServer) -> None:
    assert await AttachedServer(own.address).ready() == own.address


async def test_a_server_that_is_not_there() -> None:
    with socket.create_server(("127.0.0.1", 0)) as probe:
        port = probe.getsockname()[1]
    with pytest.raises(AdbUnavailable, match="adb start-server"):
        await AttachedServer(Address("127.0.0.1", port)).ready()


async def test_nobody_answers_where_a_phone_should_be(own: PrivateServer) -> None:
    with socket.create_server(("127.0.0.1", 0)) as probe:
        port = probe.getsockname()[1]
    with pytest.raises(RemoteFault) as caught:
        await connect(own.address, f"127.0.0.1:{port}")
    assert caught.value.kind is FaultKind.OFFLINE


async def next_of(changes: AsyncGenerator[Change], serial: str) -> str | None:
    async for change in changes:
        if change.serial == serial:
            return change.state
    raise AssertionError("the tracker has ended")


async def state_reached(changes: AsyncGenerator[Change], serial: str, state: str | None) -> None:
    while await next_of(changes, serial) != state:
        pass


async def test_changes_are_told_as_they_come(phone: Phone, adb_server: PrivateServer) -> None:
    serial = phone.running.address
    async with aclosing(track(adb_server)) as changes:
        await state_reached(changes, serial, "device")
        await phone.set_faults(faults.Offline())
        await state_reached(changes, serial, "offline")
        await phone.set_faults()
        assert (await phone.remote.run(("echo", "back"), 60)).stdout == b"back\n"
        await state_reached(changes, serial, "device")


async def test_tracking_survives_the_server(own: PrivateServer, flagship: RunningPhone) -> None:
    serial = flagship.address
    await connect(own.address, serial)
    async with aclosing(track(own)) as changes:
        await state_reached(changes, serial, "device")
        (process,) = processes_of(own)
        process.kill()
        assert await next_of(changes, serial) is None
        following = changes.__anext__()
        await own.ready()
        await connect(own.address, serial)
        assert (await following).serial == serial
        assert await state_of(own.address, serial) == "device"
