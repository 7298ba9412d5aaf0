"""The agent's own adb server, somebody else's, and who is listed there."""

from __future__ import annotations

import asyncio
import gc
import os
import socket
import stat
import subprocess
from collections.abc import AsyncGenerator, AsyncIterator, Callable
from contextlib import aclosing
from dataclasses import replace
from pathlib import Path

import psutil
import pytest

from agents.remotes.adb import server as server_module
from agents.remotes.adb.addresses import HostPort, UnixSocket
from agents.remotes.adb.connections import connect, state_of
from agents.remotes.adb.mdns import listen
from agents.remotes.adb.pairing import pair
from agents.remotes.adb.server import (
    SERVER_MARKER,
    SOCKET,
    AttachedServer,
    PrivateServer,
    find_adb,
    server_environment,
)
from agents.remotes.adb.smart_socket import ask
from agents.remotes.adb.tracker import Change, track
from agents.remotes.remote import FaultKind, RemoteFault
from agents.virtual_phone import faults
from controller.contracts.errors import AdbMissing, AdbUnavailable
from controller.platform.ports import free_ports
from controller.platform.processes import marked_processes
from tests.support.processes import idle_process
from tests.support.remotes import Phone
from tests.support.virtual_phone import RunningPhone
from tests.support.waiting import PATIENCE_S

pytestmark = pytest.mark.integration
HERE = "127.0.0.1"
MANY = 50


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


async def test_it_listens_on_its_socket_and_nowhere_else(own: PrivateServer) -> None:
    await ask(own.address, "host:version")
    (process,) = processes_of(own)
    assert process.net_connections("inet") == []
    assert {str(c.laddr) for c in process.net_connections("unix")} - {""} == {SOCKET}
    for path, mode in ((own.folder, 0o700), (own.folder / SOCKET, 0o700)):
        assert stat.S_IMODE(path.stat().st_mode) == mode
    assert all(stat.S_IMODE(f.stat().st_mode) & 0o077 == 0 for f in own.folder.rglob("adb*"))


async def test_its_keys_are_its_own(own: PrivateServer) -> None:
    await ask(own.address, "host:version")
    assert (own.folder / ".android" / "adbkey").is_file()


async def test_killed_it_comes_back_on_the_same_socket(own: PrivateServer) -> None:
    (process,) = processes_of(own)
    process.kill()
    psutil.wait_procs([process], timeout=PATIENCE_S)
    assert await own.ready() == own.address
    assert processes_of(own) != [process]
    await ask(own.address, "host:version")


async def test_frozen_it_is_replaced(own: PrivateServer) -> None:
    (process,) = processes_of(own)
    process.suspend()
    await replace(own, answer_s=0.5).ready()
    assert processes_of(own) != [process]


async def test_frozen_it_keeps_nobody_waiting_for_ever(own: PrivateServer) -> None:
    (process,) = processes_of(own)
    process.suspend()
    hasty = UnixSocket(own.folder / SOCKET, answer_s=0.5)
    asked = (ask(hasty, "host:version") for _ in range(MANY))  # more than it has room for
    faults = await asyncio.gather(*asked, return_exceptions=True)
    assert {getattr(fault, "kind", fault) for fault in faults} == {FaultKind.ADB_SERVER}
    waiting = [asyncio.create_task(ask(own.address, "host:version")) for _ in range(MANY)]
    process.resume()
    assert len(set(await asyncio.gather(*waiting))) == 1, "all are answered, and alike"


async def test_in_a_folder_with_a_long_name(tmp_path: Path) -> None:
    server = await PrivateServer.start(tmp_path / ("x" * 200) / "adb")
    try:
        assert await ask(server.address, "host:version")
        assert await PrivateServer.start(server.folder) == server
        assert len(processes_of(server)) == 1
    finally:
        await server.stop()


async def test_a_process_that_only_carries_the_marker_is_no_server(own: PrivateServer) -> None:
    marked = {"PATH": os.defpath, SERVER_MARKER: str(own.folder)}
    with idle_process(marked) as other:
        before = await asyncio.to_thread(processes_of, own)
        assert await PrivateServer.start(own.folder) == own
        assert processes_of(own) == before
        await own.stop()
        assert [p.pid for p in processes_of(own)] == [other.pid]
        await own.ready()
        assert await ask(own.address, "host:version")


@pytest.mark.parametrize("where", ["tcp:localhost:{port}", "localfilesystem:{socket}"])
async def test_another_server_of_its_user_is_ended(own: PrivateServer, where: str) -> None:
    """One on a TCP port, or one that `adb -L` has started where ours was not."""
    spec = where.format(port=free_ports(1, HERE)[0], socket=own.folder / SOCKET)
    marked = spec.startswith("tcp")
    environment = server_environment(os.environ, own.folder, None)
    if not marked:
        await own.stop()
        del environment[SERVER_MARKER]
    heard, said = os.pipe()
    command = [find_adb(), "-L", spec, "fork-server", "server", "--reply-fd", str(said)]
    with (
        subprocess.Popen(command, env=environment, pass_fds=(said,)) as other,
        os.fdopen(heard) as reply,
    ):
        os.close(said)
        assert await asyncio.to_thread(reply.readline) == "OK\n"
        before = processes_of(own)
        await own.ready()
        other.wait(PATIENCE_S)
    (process,) = processes_of(own)
    assert process in before or not marked
    assert await ask(own.address, "host:version")


def folder_of_another(folder: Path) -> None:
    os.chown(folder, 65534, 65534)


@pytest.mark.parametrize(
    ("spoil", "seen"),
    [
        (
            lambda folder: folder.chmod(0o770),
            r"users may write to it \(mode 0770\)\. Remove it",
        ),
        pytest.param(
            folder_of_another,
            r"belongs to uid 65534, not to 0. Remove it",
            marks=pytest.mark.skipif(os.geteuid() != 0, reason="giving a folder away needs root"),
        ),
    ],
)
async def test_a_folder_that_others_may_have_put_something_into(
    tmp_path: Path, spoil: Callable[[Path], None], seen: str
) -> None:
    folder = tmp_path / "adb"
    folder.mkdir(mode=0o700)
    spoil(folder)
    with pytest.raises(AdbUnavailable, match=f"keep an adb server in {folder}: .*{seen}"):
        await PrivateServer.start(folder)
    assert list(folder.iterdir()) == []


async def test_a_folder_of_an_earlier_release_is_closed(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    folder = tmp_path / "adb"
    folder.mkdir(mode=0o755)
    await (await PrivateServer.start(folder)).stop()
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    assert "was open to others (mode 0755): closed" in caplog.text


@pytest.mark.parametrize(
    ("missing", "error", "words"),
    [
        ("adb", AdbMissing, r"pip install .*adbutils"),
        ("setsid", AdbUnavailable, r"start an adb server .*'setsid'.*util-linux"),
        ("log", AdbUnavailable, r"start an adb server .*adb\.log"),
    ],
)
async def test_a_server_that_cannot_be_started_leaves_nothing_open(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    missing: str,
    error: type[AdbUnavailable],
    words: str,
) -> None:
    if missing == "adb":
        monkeypatch.setattr(server_module, "find_spec", lambda name: None)
    if missing == "log":  # a folder has its place, so that no log can be begun
        (tmp_path / "adb" / "adb.log").mkdir(parents=True)
    monkeypatch.setenv("PATH", str(tmp_path))
    gc.collect()  # what other tests left open is no part of the count
    before = 0
    for _ in range(20):
        with pytest.raises(error, match=words):
            await PrivateServer.start(tmp_path / "adb")
        before = before or _descriptors()  # the first start may open what the loop keeps
    assert _descriptors() <= before


def _descriptors() -> int:
    return len(list(Path("/proc/self/fd").iterdir()))


async def test_somebody_else_s_server(own: PrivateServer) -> None:
    assert await AttachedServer(own.address).ready() == own.address


async def test_a_server_that_is_not_there(tmp_path: Path) -> None:
    with socket.create_server((HERE, 0)) as probe:
        port = probe.getsockname()[1]
    nowhere = UnixSocket(tmp_path / "nothing"), UnixSocket(tmp_path / "no folder" / "nothing")
    for address in (HostPort(HERE, port), *nowhere):
        with pytest.raises(AdbUnavailable, match="adb start-server"):
            await AttachedServer(address).ready()


async def test_nobody_answers_where_a_phone_should_be(own: PrivateServer) -> None:
    with socket.create_server(("127.0.0.1", 0)) as probe:
        port = probe.getsockname()[1]
    with pytest.raises(RemoteFault) as caught:
        await connect(own.address, f"127.0.0.1:{port}")
    assert caught.value.kind is FaultKind.OFFLINE


async def test_a_pairing_that_can_not_be_is_told_by_the_real_adb(own: PrivateServer) -> None:
    async def hang_up(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"no TLS is spoken here")
        writer.close()

    nobody = free_ports(1, HERE)[0]
    listening = await asyncio.start_server(hang_up, HERE, 0)
    async with listening:
        stranger = listening.sockets[0].getsockname()[1]
        for port, seen in (
            (nobody, "nothing there listens for pairing"),
            (stranger, "the code is wrong"),
        ):
            with pytest.raises(RemoteFault, match=seen):
                await pair(own.address, f"{HERE}:{port}", "592781")
    assert "592781" not in (own.folder / "adb.log").read_text()


async def test_who_listens_for_phones_is_gone_afterwards(own: PrivateServer) -> None:
    before = processes_of(own)
    for one in await listen(0.1):
        assert one.address, "whatever the network of this host has"
    assert processes_of(own) == before
    assert not [p for p in psutil.process_iter(["environ"]) if _listens_for_phones(p)]


def _listens_for_phones(process: psutil.Process) -> bool:
    environment = process.info["environ"] or {}
    return "benchfarm-mdns-" in environment.get(SERVER_MARKER, "")


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
