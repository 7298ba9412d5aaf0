"""Another user of the host before the agent's adb server, which commands every phone it knows."""

from __future__ import annotations

import shutil
import socket
import subprocess
import tempfile
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path

import psutil
import pytest

from agents.remotes.adb.connections import connect, state_of
from agents.remotes.adb.server import SERVER_MARKER, SOCKET, PrivateServer, find_adb
from agents.remotes.adb.smart_socket import ask
from controller.platform.processes import marked_processes
from tests.support.other_user import (
    OTHER_UID,
    call_as_other_user,
    needs_other_user,
    run_as_other_user,
)
from tests.support.processes import is_dead
from tests.support.virtual_phone import RunningPhone, running_phone
from tests.support.waiting import PATIENCE_S

pytestmark = [pytest.mark.integration, needs_other_user]
QUESTION = b"000chost:version"


@pytest.fixture(scope="module")
def phone(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningPhone]:
    with running_phone("flagship", tmp_path_factory.mktemp("phone")) as running:
        yield running


@pytest.fixture
def place() -> Iterator[Path]:
    """A folder below which everybody may look: what keeps them out is the server's own folder."""
    place = Path(tempfile.mkdtemp())
    place.chmod(0o755)
    yield place
    shutil.rmtree(place)


@pytest.fixture
async def server(place: Path, phone: RunningPhone) -> AsyncIterator[PrivateServer]:
    server = await PrivateServer.start(place / "agent" / "adb")
    await connect(server.address, phone.address)
    yield server
    await server.stop()


def process_of(server: PrivateServer) -> psutil.Process:
    (process,) = marked_processes(SERVER_MARKER, str(server.folder))
    return process


def said_at(address: str | tuple[str, int]) -> bytes:
    """Ask an adb server for its version; return what it says."""
    family = socket.AF_UNIX if isinstance(address, str) else socket.AF_INET
    with socket.socket(family) as connection:
        connection.settimeout(PATIENCE_S)
        connection.connect(address)
        connection.sendall(QUESTION)
        return connection.recv(4)


async def test_it_has_no_port_and_no_abstract_name(
    server: PrivateServer, phone: RunningPhone
) -> None:
    connections = process_of(server).net_connections("inet")
    assert [c for c in connections if c.status == psutil.CONN_LISTEN] == []
    assert [f"{c.raddr.ip}:{c.raddr.port}" for c in connections] == [phone.address]
    names = {str(c.laddr) for c in process_of(server).net_connections("unix")}
    assert names - {""} == {SOCKET}, "no name that begins with NUL, which has no folder"


async def test_a_stranger_gets_no_answer_of_it(server: PrivateServer, place: Path) -> None:
    path = str(server.folder / SOCKET)
    assert said_at(path) == b"OKAY", "its own user does"

    def attempts() -> list[str]:
        ways: list[Callable[[], object]] = [
            lambda: said_at(path),
            lambda: said_at(f"/proc/{pid}/cwd/{SOCKET}"),
            lambda: list(server.folder.iterdir()),
            lambda: (server.folder / ".android" / "adbkey").read_bytes(),
            lambda: server.folder.rename(place / "mine"),
            lambda: (place / "agent" / "adb2").mkdir(),
        ]
        return [error_of(way) for way in ways]

    pid = process_of(server).pid
    assert call_as_other_user(attempts) == ["PermissionError"] * 6


def error_of(call: Callable[[], object]) -> str:
    try:
        return f"it worked: {call()!r}"
    except OSError as error:
        return type(error).__name__


async def test_adb_itself_reaches_no_phone_for_a_stranger(
    server: PrivateServer, place: Path, phone: RunningPhone
) -> None:
    adb = place / "adb"
    shutil.copy(find_adb(), adb)
    adb.chmod(0o755)
    spec = f"localfilesystem:{server.folder / SOCKET}"
    before = process_of(server)
    for words in (["devices"], ["-s", phone.address, "shell", "id"], ["kill-server"]):
        done = run_as_other_user([str(adb), "-L", spec, *words])
        assert done.stdout == ""
        assert "cannot connect to daemon" in done.stderr or "could not connect" in done.stderr
    assert process_of(server) == before
    assert await state_of(server.address, phone.address) == "device"


async def test_a_stranger_s_process_is_neither_taken_for_it_nor_ended(
    server: PrivateServer,
) -> None:
    """It carries the marker, and is called as an adb server is."""
    before = process_of(server)
    with subprocess.Popen(
        ["adb", "-c", "read end", *("fork-server", "server")],
        executable="/bin/sh",
        stdin=subprocess.PIPE,
        user=OTHER_UID,
        group=OTHER_UID,
        extra_groups=[],
        cwd="/",
        env={SERVER_MARKER: str(server.folder)},
    ) as other:
        found = {process.pid for process in marked_processes(SERVER_MARKER, str(server.folder))}
        assert found == {before.pid, other.pid}, "root sees both"
        assert await PrivateServer.start(server.folder) == server
        assert before.is_running()
        await server.stop()
        left = marked_processes(SERVER_MARKER, str(server.folder))
        assert {process.pid for process in left if not is_dead(process)} == {other.pid}
        assert is_dead(before)
        await server.ready()
        assert await ask(server.address, "host:version")
        assert other.poll() is None
        other.kill()
