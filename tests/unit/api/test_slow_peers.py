"""Peers and a controller that are slow or stuck hold up nobody else, and no answer is cut."""

from __future__ import annotations

import asyncio
import socket
import ssl
import threading
from collections.abc import Awaitable, Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager, suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import httpx
import pytest
from aiohttp import web
from aiohttp.payload import Payload

from controller.api import farm_reads, outcome_reads
from controller.api.certificate import own_certificate, tls_of
from controller.api.options import STREAMS, STREAMS_OF_USER, ApiOptions
from controller.api.routes import PREFIX
from controller.api.source import AT_ONCE, QUESTIONS_AT_ONCE, WRITES_AT_ONCE, Threads
from controller.api.streams import send_pieces
from controller.contracts.errors import SweepInvalid
from controller.contracts.records import Scope
from controller.metrics.exporter import LOOPBACK
from controller.metrics.web_server import answered, listen, serve
from controller.page import pages
from controller.page.fleet import QueueNow
from controller.page.responses import html, static_address, static_answer, static_files
from controller.platform.atomic import write_private
from controller.runtime.api import MAX_STREAMS
from controller.runtime.home import Endpoint, Home
from tests.support.api import SECRETS, UNLIMITED, Described, Served, prepared, served
from tests.support.http_peer import Peer, answering
from tests.support.page import browser, page_served
from tests.support.store_examples import sweep_record
from tests.support.waiting import PATIENCE_S, eventually, until

WHOLE = 2**24
"""Bytes: more than the kernel takes for one connection."""
EVENTS = "/sweeps/{sweep_id}/events"
WATCH = EVENTS.format(sweep_id=sweep_record(repeats=12).sweep_id)
DESCRIBED = Described()


def options(**changes: Any) -> ApiOptions:  # noqa: ANN401
    return ApiOptions(LOOPBACK, 0, rate=UNLIMITED, strangers=UNLIMITED, end_s=0.1, **changes)


async def piece(request: web.Request) -> web.StreamResponse:
    async def in_turn(work: Callable[..., Any], *given: Any) -> Any:  # noqa: ANN401
        return work(*given)

    return await send_pieces(request, web.StreamResponse(), iter([bytes(WHOLE)]), in_turn, 0.1)


async def page(request: web.Request) -> web.StreamResponse:
    return html(request, "x" * WHOLE)


@pytest.mark.parametrize("handler", [piece, page])
async def test_over_tls_a_large_piece_and_a_page_are_under_way_until_they_are_read(
    tmp_path: Path,
    caplog: pytest.LogCaptureFixture,
    handler: Callable[[web.Request], Awaitable[web.StreamResponse]],
) -> None:
    async def answer(request: web.Request) -> web.StreamResponse:
        return await answered(request, "ann", handler)

    tmp_path.chmod(0o700)
    app, files = web.Application(), own_certificate(tmp_path, LOOPBACK, datetime.now(UTC))
    app.router.add_get("/", answer)
    server = await serve(app, listen(LOOPBACK), tls=tls_of(files), send_s=0.1)
    trust = ssl.create_default_context(cafile=str(files.certificate))
    try:
        reader, writer = await asyncio.open_connection(*server.address, ssl=trust)
        writer.write(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n")
        await until(lambda: "has not read its answer in time" in caplog.text, "the drop")
        with suppress(ConnectionError):
            assert len(await reader.read()) < WHOLE
        writer.transport.abort()
    finally:
        await server.cleanup()


def test_large_files_of_the_page_are_sent_in_pieces() -> None:
    large = static_answer(static_address("plotly.js"))
    assert isinstance(large.body, Payload)
    assert large.body.size == len(static_files()["plotly.js"])
    assert large.headers["Content-Type"] == "text/javascript; charset=utf-8"


def test_a_stuck_controller_holds_up_no_reader(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    waiting, free = threading.Semaphore(0), threading.Event()

    def stuck(_: Home) -> dict[str, list[str]]:
        waiting.release()
        free.wait(PATIENCE_S)
        return {}

    monkeypatch.setattr(farm_reads, "stored_files_now", stuck)
    monkeypatch.setattr(farm_reads, "trouble_of", lambda home: "".join(stuck(home)))
    home = prepared(tmp_path / "home", sweeps=1)
    with served(home, options()) as api, ThreadPoolExecutor(2 * AT_ONCE) as pool:
        asked = [pool.submit(api.get, path) for path in ("/files", "/farm") * AT_ONCE]
        try:
            for _ in range(QUESTIONS_AT_ONCE):
                assert waiting.acquire(timeout=PATIENCE_S)
            assert api.get("/sweeps").status_code == 200
            assert not waiting.acquire(blocking=False), "others wait for their turn"
        finally:
            free.set()
        assert {one.result(PATIENCE_S).status_code for one in asked} == {200}


async def test_who_waits_for_the_controller_leaves_readers_all_their_threads() -> None:
    asyncio.get_running_loop().set_default_executor(ThreadPoolExecutor(2))  # as on few cores
    threads, begun, free = Threads(), list[str](), threading.Event()

    def stuck(what: str) -> None:
        begun.append(what)
        free.wait(PATIENCE_S)

    turns = [threads.write] * WRITES_AT_ONCE + [threads.ask] * QUESTIONS_AT_ONCE
    turns += [threads.read] * AT_ONCE
    waiting = [asyncio.create_task(turn(stuck, turn.__name__)) for turn in turns]
    try:
        await until(lambda: len(begun) == len(turns), "all have begun")
    finally:
        free.set()
        await asyncio.gather(*waiting)


def test_what_queued_runs_wait_for_holds_up_no_reader(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    waiting, free = threading.Semaphore(0), threading.Event()

    def stuck(*_: object) -> QueueNow:
        waiting.release()
        free.wait(PATIENCE_S)
        return QueueNow(())

    monkeypatch.setattr(pages, "queue_now", stuck)
    home = prepared(tmp_path / "home", sweeps=1)
    with page_served(home) as api, browser(api) as one, ThreadPoolExecutor(AT_ONCE) as pool:
        asked = [pool.submit(one.get, "/live/queue") for _ in range(AT_ONCE)]
        try:
            for _ in range(QUESTIONS_AT_ONCE):
                assert waiting.acquire(timeout=PATIENCE_S)
            assert one.get("/sweeps").status_code == 200
            assert not waiting.acquire(blocking=False), "others wait for their turn"
        finally:
            free.set()
        assert {each.result(PATIENCE_S).status_code for each in asked} == {200}


@contextmanager
def controller_of(home: Home, peer: Peer) -> Iterator[None]:
    """Have a peer answer as a home's controller."""
    with answering(peer):
        endpoint = Endpoint(url=peer.url, version="", pid=1)
        write_private(home.endpoint_file, endpoint.model_dump_json())
        yield


def test_who_reads_no_events_is_dropped(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    home = prepared(tmp_path / "home", sweeps=1)
    endless = Peer(pieces=[b"x" * 2**16 + b"\n"] * (WHOLE >> 15))
    head = f"GET {PREFIX}{WATCH} HTTP/1.1", "Host: x", f"Authorization: {bearer(Scope.VIEWER)}"
    with controller_of(home, endless), served(home, options(send_s=0.1)) as api:
        host, port = api.url.rpartition("/")[2].split(":")
        with socket.socket() as connection:
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
            connection.settimeout(PATIENCE_S)
            connection.connect((host, int(port)))
            connection.sendall("\r\n".join((*head, "", "")).encode())
            eventually(lambda: "has not read its answer in time" in caplog.text, "the drop")
            heard = 0
            with suppress(ConnectionError):
                while more := connection.recv(2**16):
                    heard += len(more)
            assert heard < 2 * WHOLE
        assert api.get("/agents").status_code == 200


def bearer(scope: Scope) -> str:
    return f"Bearer {SECRETS[scope]}"


def test_no_user_takes_all_streams_of_events(tmp_path: Path) -> None:
    home = prepared(tmp_path / "home", sweeps=1)
    quiet = Peer(pieces=[b"\n"], silent=True)
    few = options(streams=3, streams_of_user=2)
    with controller_of(home, quiet), served(home, few) as api, ExitStack() as stack:

        def watch(scope: Scope) -> httpx.Response:
            return stack.enter_context(watching(api, scope))

        first, second = watch(Scope.VIEWER), watch(Scope.VIEWER)
        assert (first.status_code, second.status_code) == (200, 200)
        assert refused(watch(Scope.VIEWER)) == "cannot watch the sweep: viewer watches 2 already"
        assert watch(Scope.SUBMITTER).status_code == 200
        said = refused(watch(Scope.ADMINISTRATOR))
        assert said == "cannot watch the sweep: 3 are watched already"
        first.close()
        eventually(lambda: watch(Scope.ADMINISTRATOR).status_code == 200, "a stream is free")


def test_who_opens_streams_and_leaves_takes_none_for_long(tmp_path: Path) -> None:
    home = prepared(tmp_path / "home", sweeps=1)
    quiet = Peer(pieces=[b"\n"], silent=True)
    few = options(streams=3, streams_of_user=3)
    with controller_of(home, quiet), served(home, few) as api:
        said = set()
        for _ in range(10):
            with watching(api, Scope.VIEWER) as answer:
                said.add(answer.status_code)
        assert 200 in said
        eventually(lambda: not quiet.held, "the controller's streams have ended")
        # The end of one may be seen there only after the next has begun in its place.
        assert quiet.most_held <= 2 * 3
        with watching(api, Scope.VIEWER) as answer:
            assert answer.status_code == 200


@contextmanager
def watching(api: Served, scope: Scope) -> Iterator[httpx.Response]:
    headers = {"Authorization": bearer(scope)}
    with api.client.stream("GET", f"{api.url}{PREFIX}{WATCH}", headers=headers) as answer:
        yield answer


def refused(answer: httpx.Response) -> str:
    answer.read()
    assert (answer.status_code, answer.headers["Retry-After"]) == (429, "1")
    assert DESCRIBED.objection("GET", EVENTS, answer) == ""
    return str(answer.json()["detail"])


def test_the_head_itself_can_watch_whatever_the_api_does() -> None:
    assert STREAMS_OF_USER < STREAMS < MAX_STREAMS


@pytest.mark.parametrize(
    ("route", "path"),
    [(EVENTS, WATCH), ("/comparison", "/comparison?a=eager&b=compile&workload=retinanet")],
)
def test_a_fault_of_the_head_is_none_of_the_request(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    route: str,
    path: str,
) -> None:
    home = prepared(tmp_path / "home", sweeps=1)
    home.api_token.chmod(0o644)

    def broken() -> None:
        raise SweepInvalid(f"read {home.path}/torch.yaml", "it is no YAML", "Mend it.")

    monkeypatch.setattr(outcome_reads, "load_catalog", broken)
    with controller_of(home, Peer()), served(home, options()) as api:
        answer = api.get(path)
    assert (answer.status_code, answer.json()["detail"]) == (503, "cannot read the head's files")
    assert DESCRIBED.objection("GET", route, answer) == ""
    assert str(home.path) not in answer.text
    assert str(home.path) in caplog.text
