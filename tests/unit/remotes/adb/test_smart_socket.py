from __future__ import annotations

import asyncio
import errno
from unittest.mock import AsyncMock, Mock

import pytest

from agents.remotes.adb.addresses import HostPort
from agents.remotes.adb.smart_socket import Connection
from agents.remotes.remote import FaultKind, RemoteFault
from controller.contracts.result import Blame

HERE = HostPort("127.0.0.1", 5038)


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


async def test_an_answer_of_the_server_that_is_none_is_no_fault_of_a_phone() -> None:
    reader = asyncio.StreamReader()
    reader.feed_data(b"EVIL")
    connection = Connection(HERE, reader, Mock(drain=AsyncMock()))
    with pytest.raises(RemoteFault, match="the adb server answered b'EVIL'") as caught:
        await connection.request("host:transport:R58M", "R58M")
    assert (caught.value.kind, caught.value.blame) == (FaultKind.PROTOCOL, Blame.HARNESS)
