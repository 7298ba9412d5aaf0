"""Whoever has no token can't keep the controller's interface or an exporter from answering others.

Each attack goes to both, and to the API for teams, as they really listen; while it lasts, a request
with a token is answered.
"""

from __future__ import annotations

import asyncio
import gzip
import logging
import resource
import ssl
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator
from contextlib import ExitStack, asynccontextmanager, contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

import aiohttp
import aiohttp.http_parser
import pytest
from aiohttp import web
from prometheus_client import CollectorRegistry

from controller.api.certificate import Certificate, own_certificate, tls_of
from controller.api.options import ApiOptions as TeamOptions
from controller.api.server import serve_api as serve_team_api
from controller.contracts.errors import UserError
from controller.metrics import web_server
from controller.metrics.exporter import (
    LOOPBACK,
    METRICS_PATH,
    Exposition,
    listening,
    serve_metrics,
)
from controller.metrics.web_server import (
    HEAD_TIMEOUT_S,
    MAX_PER_CALLER,
    MAX_WITHOUT_TOKEN,
    WebServer,
)
from controller.platform.atomic import write_private
from controller.runtime.access import Access
from controller.runtime.api import MAX_STREAMS, ApiOptions, serve_api, url_of
from controller.runtime.client import TOKEN_VARIABLE, FarmClient
from controller.runtime.desk import Desk
from controller.runtime.farm import Farm
from controller.runtime.feed import Feed
from controller.runtime.home import Home
from controller.runtime.options import URL_VARIABLE
from tests.support import builders
from tests.support.api import UNLIMITED, VERSION, prepared
from tests.support.farm import FarmBox
from tests.support.waiting import PATIENCE_S, until

TOKEN = "0123456789abcdef"
AGENTS = "/api/v1/agents"
BOMB = gzip.compress(bytes(2**20)) * 64
"""64 MiB of zeros, a member of the file for each of them."""
CHUNKS = b"1\r\na\r\n" * 20_000
"""Chunks of a byte, of which each costs a parser as much as a large one."""
FLOOD = """
import socket, sys
host, port, count, said = sys.argv[1], int(sys.argv[2]), int(sys.argv[3]), sys.argv[4].encode()
connections = []
for _ in range(count):
    try:
        connections.append(socket.create_connection((host, port)))
        connections[-1].sendall(said)
    except OSError:
        pass
print("done", flush=True)
sys.stdin.read()
"""
"""Opens connections from a process of its own, says the same on each, and keeps them open."""


@dataclass(frozen=True, slots=True)
class Attacked:
    """A server that listens, and what it answers with a token."""

    server: WebServer
    path: str
    farm: Farm | None = None
    trust: ssl.SSLContext | None = None
    """Of a client over TLS."""

    async def connect(self, source: str = LOOPBACK) -> Connection:
        address, local = self.server.address, (source, 0)
        return Connection(
            *await asyncio.open_connection(*address, local_addr=local, ssl=self.trust)
        )

    async def assert_answers(self) -> None:
        headers = {"Authorization": f"Bearer {TOKEN}"}
        patience = aiohttp.ClientTimeout(total=PATIENCE_S)
        url = url_of(self.server)
        if self.trust:
            url = url.replace("http:", "https:")
        async with (
            aiohttp.ClientSession(url, headers=headers, timeout=patience) as user,
            user.get(self.path, ssl=self.trust or True) as answer,
        ):
            assert answer.status == 200

    @contextmanager
    def flooded(self, count: int, said: bytes = b"") -> Iterator[subprocess.Popen[str]]:
        """Start a process that opens connections, and end it."""
        host, port = self.server.address
        command = [sys.executable, "-P", "-c", FLOOD, host, str(port), str(count), said.decode()]
        with subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        ) as flood:
            yield flood
            flood.kill()


@dataclass(frozen=True, slots=True)
class Connection:
    """One of an attacker's."""

    reader: asyncio.StreamReader
    writer: asyncio.StreamWriter

    async def heard(self) -> bytes:
        """Return all that the server says until it ends the connection."""
        said = b""
        async with asyncio.timeout(PATIENCE_S):
            try:
                while more := await self.reader.read(2**16):
                    said += more
            except ConnectionResetError:
                pass  # it had not read all that was sent
        self.writer.close()
        return said


@asynccontextmanager
async def attacked_api(
    folder: Path, head_timeout_s: float = HEAD_TIMEOUT_S
) -> AsyncIterator[Attacked]:
    box = FarmBox(folder / "store.sqlite")
    feed = Feed()
    box.on_event = feed.publish
    box.farm.register(builders.registration())
    sweep_id = box.submit(builders.sweep(), user="admin").sweep_id
    access = Access(box.store, TOKEN, box.clock)
    options = ApiOptions(access=access, metrics_token="-", port=0, head_timeout_s=head_timeout_s)
    server = await serve_api(box.farm, feed, list, options)
    yield Attacked(server, f"/v1/sweeps/{sweep_id}", box.farm)
    await server.cleanup()
    box.close()


@asynccontextmanager
async def attacked_exporter(
    _: Path, head_timeout_s: float = HEAD_TIMEOUT_S
) -> AsyncIterator[Attacked]:
    exposition = Exposition([], CollectorRegistry())
    listener = listening(LOOPBACK)
    server = await serve_metrics(listener, TOKEN, lambda: exposition, head_timeout_s)
    yield Attacked(server, METRICS_PATH)
    await server.cleanup()


@asynccontextmanager
async def team_api(
    folder: Path, head_timeout_s: float, certificate: Certificate | None
) -> AsyncIterator[Attacked]:
    home = prepared(folder / "home", sweeps=1)
    write_private(home.api_token, TOKEN)
    tls, trust = None, None
    if certificate:
        tls = tls_of(certificate)
        trust = ssl.create_default_context(cafile=str(certificate.certificate))
    limits = TeamOptions(LOOPBACK, 0, tls=tls, rate=UNLIMITED, head_timeout_s=head_timeout_s)
    server = await serve_team_api(home, VERSION, limits)
    yield Attacked(server, AGENTS, trust=trust)
    await server.cleanup()


@asynccontextmanager
async def attacked_team_api(
    folder: Path, head_timeout_s: float = HEAD_TIMEOUT_S
) -> AsyncIterator[Attacked]:
    async with team_api(folder, head_timeout_s, None) as attacked:
        yield attacked


@asynccontextmanager
async def attacked_over_tls(folder: Path) -> AsyncIterator[Attacked]:
    keys = folder / "keys"
    keys.mkdir(mode=0o700)
    own = own_certificate(keys, LOOPBACK, datetime.now(UTC))
    async with team_api(folder, HEAD_TIMEOUT_S, own) as attacked:
        yield attacked


KINDS = {METRICS_PATH: attacked_exporter, AGENTS: attacked_team_api}


@pytest.fixture(params=[attacked_api, attacked_exporter, attacked_team_api])
async def attacked(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Attacked]:
    async with request.param(tmp_path) as attacked:
        yield attacked


def open_connections(server: WebServer) -> int:
    assert server.runner.server
    return len(server.runner.server.connections)


def head(path: str, *lines: str) -> bytes:
    return "\r\n".join((f"POST {path} HTTP/1.1", "Host: x", *lines, "", "")).encode()


async def test_a_body_is_not_unpacked_and_its_connection_ends(
    attacked: Attacked, monkeypatch: pytest.MonkeyPatch
) -> None:
    unpacked: list[object] = []
    monkeypatch.setattr(aiohttp.http_parser, "ZLibDecompressor", lambda **_: unpacked.append(1))
    bomb = head(attacked.path, "Content-Encoding: gzip", f"Content-Length: {2**30}") + BOMB
    attackers = [await attacked.connect() for _ in range(8)]
    for attacker in attackers:
        attacker.writer.write(bomb)
    await attacked.assert_answers()
    for attacker in attackers:
        assert (await attacker.heard()).split(b"\r\n")[0] == b"HTTP/1.1 401 Unauthorized"
    assert unpacked == []


@pytest.mark.parametrize(
    "attacked",
    [attacked_api, attacked_exporter, attacked_team_api, attacked_over_tls],
    indirect=True,
)
async def test_little_of_what_a_peer_sends_is_parsed_at_once_before_its_token_is_seen(
    attacked: Attacked, monkeypatch: pytest.MonkeyPatch
) -> None:
    parsed: list[int] = []
    receive = web.RequestHandler.data_received

    def data_received(self: web.RequestHandler, data: bytes) -> None:
        parsed.append(len(data))
        receive(self, data)

    monkeypatch.setattr(web.RequestHandler, "data_received", data_received)
    attackers = [await attacked.connect() for _ in range(8)]
    for attacker in attackers:
        attacker.writer.write(head(attacked.path, "Transfer-Encoding: chunked") + CHUNKS)
    await attacked.assert_answers()
    for attacker in attackers:
        assert (await attacker.heard()).startswith(b"HTTP/1.1 401")
    assert max(parsed) <= web_server.UNKNOWN_PEER_BYTES
    assert sum(parsed) < len(attackers) * len(CHUNKS) / 2, "the rest is read, not parsed"


async def test_a_half_sent_head_ends_the_connection_also_after_a_whole_one(
    attacked: Attacked, tmp_path: Path
) -> None:
    assert HEAD_TIMEOUT_S <= 30
    kind = KINDS.get(attacked.path, attacked_api)
    (tmp_path / "hasty").mkdir()
    async with kind(tmp_path / "hasty", head_timeout_s=0.5) as hasty:
        silent, slow, second = [await hasty.connect() for _ in range(3)]
        asked = f"GET {hasty.path} HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {TOKEN}\r\n\r\n"
        second.writer.write(asked.encode() + b"GET / HTTP")
        dripping = asyncio.create_task(_drip(slow.writer))
        await hasty.assert_answers()
        assert await silent.heard() == b""
        assert await slow.heard() == b""
        assert (await second.heard()).startswith(b"HTTP/1.1 200 OK")
        dripping.cancel()


async def _drip(writer: asyncio.StreamWriter) -> None:
    writer.write(b"GET / HTTP/1.1\r\nX: ")
    while not writer.is_closing():
        writer.write(b"x")
        await asyncio.sleep(0.1)


@pytest.mark.parametrize("said", [b"", b"GET /", b"nonsense\r\n\r\n", b"GET / HTTP/1.1\r\n\r\n"])
async def test_no_number_of_connections_keeps_others_out(
    attacked: Attacked, caplog: pytest.LogCaptureFixture, said: bytes
) -> None:
    with attacked.flooded(10 * MAX_WITHOUT_TOKEN, said) as flood:
        assert flood.stdout
        flooded = asyncio.create_task(asyncio.to_thread(flood.stdout.readline))
        while not flooded.done():
            await attacked.assert_answers()
        await attacked.assert_answers()
        assert open_connections(attacked.server) <= MAX_WITHOUT_TOKEN + 1
    assert len(caplog.records) <= 2, "each cause is logged once"


async def test_who_opens_most_connections_loses_them(attacked: Attacked) -> None:
    quiet = await attacked.connect("127.0.0.2")
    quiet.writer.write(f"GET {attacked.path} HTTP/1.1\r\nHost: x\r\n".encode())
    loud = [await attacked.connect() for _ in range(MAX_WITHOUT_TOKEN + 10)]
    first_of_the_loud = await loud[0].heard()
    assert first_of_the_loud == b""
    quiet.writer.write(f"Authorization: Bearer {TOKEN}\r\nConnection: close\r\n\r\n".encode())
    assert (await quiet.heard()).startswith(b"HTTP/1.1 200 OK")
    for one in loud:
        one.writer.close()


async def test_without_file_descriptors_little_is_logged_and_it_answers_again(
    attacked: Attacked, caplog: pytest.LogCaptureFixture
) -> None:
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    with attacked.flooded(MAX_WITHOUT_TOKEN) as flood, ExitStack() as files:
        assert flood.stdout
        lowest = files.enter_context(Path("/dev/null").open()).fileno()
        try:
            resource.setrlimit(resource.RLIMIT_NOFILE, (lowest + 20, before[1]))
            await asyncio.to_thread(flood.stdout.readline)
            await until(lambda: caplog.records, "a connection could not be accepted")
            flood.kill()
            await asyncio.to_thread(flood.wait)
        finally:
            resource.setrlimit(resource.RLIMIT_NOFILE, before)
        await attacked.assert_answers()
    assert [r.message for r in caplog.records if r.levelno >= logging.WARNING] == [
        "cannot accept a connection: Too many open files"
    ]


async def test_what_is_served_to_a_token_is_not_dropped(tmp_path: Path) -> None:
    async with attacked_api(tmp_path) as attacked:
        headers = {"Authorization": f"Bearer {TOKEN}"}
        async with aiohttp.ClientSession(url_of(attacked.server), headers=headers) as user:
            watching = [await user.get(f"{attacked.path}/events") for _ in range(MAX_STREAMS)]
            with attacked.flooded(5 * MAX_WITHOUT_TOKEN) as flood:
                assert flood.stdout
                await asyncio.to_thread(flood.stdout.readline)
                most = MAX_WITHOUT_TOKEN + MAX_STREAMS
                await until(
                    lambda: open_connections(attacked.server) == most, "the oldest are dropped"
                )
            assert attacked.farm
            await Desk(attacked.farm.sweeps).cancel(attacked.path.rpartition("/")[2], "admin")
            for one in watching:
                assert b'"cancelled"' in await one.content.readline()
                one.close()


async def test_one_token_does_not_take_all_connections(tmp_path: Path) -> None:
    begun = head("/v1/sweeps", f"Authorization: Bearer {TOKEN}", "Content-Length: 9")
    asked = head("/v1/sweeps", f"Authorization: Bearer {TOKEN}", "Connection: close")
    async with attacked_api(tmp_path) as attacked:
        slow = [await attacked.connect() for _ in range(MAX_PER_CALLER)]
        for one in slow:
            one.writer.write(begun)

        async def ask() -> bytes:
            another = await attacked.connect()
            another.writer.write(asked)
            return await another.heard()

        async def refused() -> bool:
            said = await ask()
            return said.startswith(b"HTTP/1.1 429") and b"with the same token are open" in said

        await until(refused, "all of them are served")
        for one in slow:
            one.writer.close()

        async def served() -> bool:
            return (await ask()).startswith(b"HTTP/1.1 400")

        await until(served, "there is room again")


async def test_a_wrong_token_is_told_also_beside_a_large_body(tmp_path: Path) -> None:
    large = builders.sweep(knobs={"steps": list(range(100_000))})
    async with attacked_api(tmp_path) as attacked:
        environ = {URL_VARIABLE: url_of(attacked.server), TOKEN_VARIABLE: "wrong"}
        client = FarmClient(Home(tmp_path), environ)
        with pytest.raises(UserError, match="no valid token"):
            await asyncio.to_thread(client.submit, large)
