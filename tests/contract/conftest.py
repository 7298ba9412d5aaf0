from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

from agents.remotes.adb.remote import AdbRemote
from agents.remotes.adb.server import PrivateServer
from tests.support.phone_farm import impatient
from tests.support.remotes import OWNER, Phone, Place, local_place
from tests.support.virtual_phone import RunningPhone, running_phone


@pytest.fixture(scope="session")
def adb_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[PrivateServer]:
    server = asyncio.run(PrivateServer.start(tmp_path_factory.mktemp("adb-server")))
    yield server
    asyncio.run(server.stop())


@pytest.fixture(scope="session")
def flagship(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningPhone]:
    with running_phone("flagship", tmp_path_factory.mktemp("flagship")) as phone:
        yield phone


@pytest.fixture(scope="session")
def old(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningPhone]:
    with running_phone("old", tmp_path_factory.mktemp("old")) as phone:
        yield phone


@pytest.fixture(params=["flagship", "old"])
def attached(request: pytest.FixtureRequest, adb_server: PrivateServer) -> Phone:
    return _attached(request, adb_server)


@pytest.fixture(params=["local", "flagship", "old"])
def phone_or_local(request: pytest.FixtureRequest) -> Phone | None:
    if request.param == "local":
        return None
    return _attached(request, request.getfixturevalue("adb_server"))


@pytest.fixture
async def phone(attached: Phone) -> AsyncIterator[Phone]:
    await attached.reset()
    yield attached
    await attached.reset()


@pytest.fixture
async def place(phone_or_local: Phone | None, tmp_path: Path) -> AsyncIterator[Place]:
    if phone_or_local is None:
        yield local_place(tmp_path / "remote")
        return
    await phone_or_local.reset()
    yield phone_or_local.place
    await phone_or_local.reset()


def _attached(request: pytest.FixtureRequest, server: PrivateServer) -> Phone:
    running: RunningPhone = request.getfixturevalue(request.param)
    remote = AdbRemote.of(impatient(server.address, running.address), OWNER)
    return Phone(running, server.address, remote, request.param == "old")
