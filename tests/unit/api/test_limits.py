"""Limits of the API: rates, bodies, heads, connections, and who may listen without TLS."""

from __future__ import annotations

import asyncio
import gzip
import json
import socket
import ssl
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, closing, suppress
from datetime import UTC, datetime
from http.client import HTTPConnection
from pathlib import Path

import httpx
import pytest
from aiohttp import web
from hypothesis import given, settings
from hypothesis import strategies as st

from controller.api.certificate import (
    Certificate,
    fingerprint_of,
    make_certificate,
    own_certificate,
    tls_of,
)
from controller.api.options import ApiOptions
from controller.api.problems import MEDIA_TYPE
from controller.api.rates import MOST_BUCKETS, Rate, RateLimit
from controller.api.replies import tagged
from controller.api.routes import DESCRIPTION, PREFIX
from controller.cli.api import certificate_of
from controller.contracts.errors import UserError
from controller.contracts.records import Scope
from controller.metrics.exporter import LOOPBACK
from controller.metrics.web_server import MAX_WITHOUT_TOKEN, answered, listen, serve
from controller.platform.atomic import write_private
from controller.runtime.addresses import Address
from tests.support import builders
from tests.support.api import SECRETS, UNLIMITED, Described, Served, prepared, served
from tests.support.waiting import PATIENCE_S, eventually, until

NOW = datetime(2026, 1, 2, tzinfo=UTC)
DESCRIBED = Described()


@settings(deadline=None, derandomize=True)
@given(
    st.lists(st.floats(0, 3), max_size=60),
    st.integers(1, 5),
    st.floats(0.5, 5),
)
def test_no_more_is_let_through_than_the_rate_allows(
    pauses: list[float], burst: int, per_s: float
) -> None:
    now, passed = 0.0, 0
    limit = RateLimit(Rate(per_s, burst), lambda: now)
    for pause in pauses:
        now += pause
        wait_s = limit.take("ann")
        passed += not wait_s
        assert passed <= burst + per_s * now + 1e-6
        if wait_s:
            assert limit.take("ann") > 0, "what is refused costs nothing"
            now += wait_s + 1e-9
            assert limit.wait_s("ann") == 0
            assert limit.wait_s("ben") == 0


def test_so_many_callers_are_remembered() -> None:
    limit = RateLimit(Rate(1, 1), lambda: 0.0)
    limit.take("ann")
    for number in range(MOST_BUCKETS - 1):
        limit.take(str(number))
    assert limit.wait_s("ann") > 0
    for number in range(MOST_BUCKETS):
        limit.take(f"x{number}")
    assert limit.wait_s("ann") == 0
    assert len(limit._buckets) == MOST_BUCKETS


def options(**changes: object) -> ApiOptions:
    plain = {"host": LOOPBACK, "port": 0, "rate": UNLIMITED, "strangers": UNLIMITED}
    return ApiOptions(**{**plain, **changes})  # type: ignore[arg-type]


def test_who_asks_too_often_waits_and_others_do_not(tmp_path: Path) -> None:
    now = [0.0]
    slow = options(rate=Rate(0.5, 3), clock=lambda: now[0])
    with served(prepared(tmp_path / "home", sweeps=1), slow) as api:
        assert [api.get("/agents").status_code for _ in range(4)] == [200, 200, 200, 429]
        refused = api.get("/agents")
        assert DESCRIBED.objection("GET", "/agents", refused) == ""
        assert refused.headers["Retry-After"] == "2"
        assert api.get("/agents", Scope.SUBMITTER).status_code == 200
        now[0] = 2.0
        assert api.get("/agents").status_code == 200


def test_who_guesses_tokens_waits_and_users_of_the_same_address_do_not(tmp_path: Path) -> None:
    now = [0.0]
    strict = options(strangers=Rate(0.1, 2), clock=lambda: now[0])
    with served(prepared(tmp_path / "home", sweeps=1), strict) as api:
        assert api.get("/agents").status_code == 200
        statuses = [api.get("/agents", None).status_code for _ in range(4)]
        assert statuses == [401, 401, 429, 429]
        assert DESCRIBED.objection("GET", "/agents", api.get("/agents", None)) == ""
        assert api.get("/agents").status_code == 200
        assert api.get("/agents", Scope.SUBMITTER).status_code == 200
        now[0] = 10.0
        assert api.get("/agents", None).status_code == 401


@pytest.fixture(scope="module")
def api(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    home = prepared(tmp_path_factory.mktemp("limits") / "home", sweeps=1)
    with served(home, options(max_body_bytes=4096, body_timeout_s=0.2)) as served_api:
        yield served_api


GOOD = json.dumps({"sweep": builders.sweep().model_dump(mode="json")}).encode()
DEEP = b'{"sweep": ' + b"[" * 2000 + b"]" * 2000 + b"}"


@pytest.mark.parametrize(
    ("content", "headers", "status"),
    [
        (b"x" * 4097, {}, 413),
        (b'{"sweep": "' + b"x" * 4000 + b'"}', {}, 422),
        (DEEP, {}, 422),
        (b"", {}, 422),
        (b"{", {}, 422),
        (b"\xff\xfe", {}, 422),
        (b'{"sweep": {}}', {}, 422),
        (GOOD, {"Content-Type": "text/plain"}, 415),
        (gzip.compress(GOOD), {"Content-Encoding": "gzip"}, 415),
        (GOOD, {}, 503),
    ],
)
def test_bodies(api: Served, content: bytes, headers: dict[str, str], status: int) -> None:
    said = {"Content-Type": "application/json", **headers}
    answer = api.ask("POST", "/sweeps", Scope.SUBMITTER, content=content, headers=said)
    assert answer.status_code == status
    assert DESCRIBED.objection("POST", "/sweeps", answer) == ""


def test_a_body_in_pieces_has_the_same_limit(api: Served) -> None:
    pieces = (b"x" * 1024 for _ in range(8))
    said = {"Content-Type": "application/json"}
    answer = api.ask("POST", "/sweeps", Scope.SUBMITTER, content=pieces, headers=said)
    assert (answer.status_code, DESCRIBED.objection("POST", "/sweeps", answer)) == (413, "")


@pytest.mark.parametrize(
    ("framing", "sent"),
    [
        (("Content-Length", "4097"), b""),
        (("Content-Length", str(2**40)), b"x" * 9000),
        (("Transfer-Encoding", "chunked"), b"1001\r\n" + b"x" * 4097 + b"\r\n"),
        (("Transfer-Encoding", "chunked"), b"ffffffff\r\n" + b"x" * 9000),
    ],
    ids=["declared", "declared and begun", "pieces that go on", "a piece that goes on"],
)
def test_a_body_beyond_the_limit_is_refused_while_it_is_read(
    tmp_path: Path, framing: tuple[str, str], sent: bytes
) -> None:
    """None of these bodies ever ends: whoever waited for the end would answer 408, much later."""
    patient = options(max_body_bytes=4096, body_timeout_s=2 * PATIENCE_S)
    with served(prepared(tmp_path / "home", sweeps=1), patient) as api:
        host, port = api.url.rpartition("/")[2].split(":")
        with closing(HTTPConnection(host, int(port), timeout=PATIENCE_S)) as connection:
            connection.putrequest("POST", f"{PREFIX}/sweeps")
            connection.putheader("Authorization", f"Bearer {SECRETS[Scope.SUBMITTER]}")
            connection.putheader("Content-Type", "application/json")
            connection.putheader(*framing)
            connection.endheaders(sent)
            answer = connection.getresponse()
            said = json.loads(answer.read())
    assert answer.status == said["status"] == 413
    assert said["type"] == "urn:benchfarm:problem:body-too-large"
    assert said["detail"] == "cannot read the body: it has more than 4096 bytes"
    assert answer.headers["Content-Type"].startswith(MEDIA_TYPE)


def spoken(api: Served, said: bytes) -> bytes:
    """Return what a server answers to bytes, until it ends the connection or has answered."""
    host, port = api.url.rpartition("/")[2].split(":")
    with socket.create_connection((host, int(port)), PATIENCE_S) as connection:
        connection.sendall(said)
        heard = b""
        while more := connection.recv(2**16):
            heard += more
            if b"\r\n\r\n" in heard:
                break
        return heard


def request_of(line: bytes, *headers: bytes) -> bytes:
    token = f"Authorization: Bearer {SECRETS[Scope.SUBMITTER]}".encode()
    return b"\r\n".join([line, b"Host: x", token, *headers, b"", b""])


def test_a_body_that_does_not_come_is_not_waited_for(api: Served) -> None:
    line = f"POST {PREFIX}/sweeps HTTP/1.1".encode()
    kind, length = b"Content-Type: application/json", b"Content-Length: 100"
    assert spoken(api, request_of(line, kind, length)).startswith(b"HTTP/1.1 408 ")


def test_a_body_that_does_not_come_does_not_delay_the_end(tmp_path: Path) -> None:
    line = f"POST {PREFIX}/sweeps HTTP/1.1".encode()
    kind, length, more = (
        b"Content-Type: application/json",
        b"Content-Length: 9",
        b"Expect: 100-continue",
    )
    patient = options(body_timeout_s=10 * PATIENCE_S, end_s=0.1)
    with ExitStack() as stack, served(prepared(tmp_path / "home", sweeps=0), patient) as api:
        host, port = api.url.rpartition("/")[2].split(":")
        connection = stack.enter_context(socket.create_connection((host, int(port)), PATIENCE_S))
        connection.sendall(request_of(line, kind, length, more))
        assert connection.recv(99).startswith(b"HTTP/1.1 100 ")
        began = time.monotonic()
    assert time.monotonic() - began < PATIENCE_S / 8


def test_an_answer_that_nobody_reads_is_dropped(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    asked = request_of(f"GET {DESCRIPTION} HTTP/1.1".encode())
    with served(prepared(tmp_path / "home", sweeps=0), options(send_s=0.1)) as api:
        length = len(api.get("/openapi.json").content)
        host, port = api.url.rpartition("/")[2].split(":")
        with socket.socket() as connection:
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
            connection.settimeout(PATIENCE_S)
            connection.connect((host, int(port)))
            times = 2**24 // length  # 16 MiB are more than the kernel takes for one connection
            writer = threading.Thread(target=sent_until_refused, args=(connection, asked * times))
            writer.start()
            eventually(lambda: "has not read its answer in time" in caplog.text, "the drop")
            heard = 0
            with suppress(ConnectionError):
                while more := connection.recv(2**16):
                    heard += len(more)
            assert heard < times * length
            writer.join(PATIENCE_S)
        assert api.get("/agents").status_code == 200


async def test_over_tls_too_an_answer_is_under_way_until_it_is_read(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async def whole(request: web.Request) -> web.StreamResponse:
        return tagged(request, bytes(2**24))

    async def big(request: web.Request) -> web.StreamResponse:
        return await answered(request, "ann", whole)

    app, files = web.Application(), made(tmp_path)
    app.router.add_get("/", big)
    server = await serve(app, listen(LOOPBACK), tls=tls_of(files), send_s=0.1)
    trust = ssl.create_default_context(cafile=str(files.certificate))
    try:
        reader, writer = await asyncio.open_connection(*server.address, ssl=trust)
        writer.write(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n")
        await until(lambda: "has not read its answer in time" in caplog.text, "the drop")
        with suppress(ConnectionError):
            assert len(await reader.read()) < 2**24
        writer.transport.abort()
    finally:
        await server.cleanup()


def sent_until_refused(connection: socket.socket, said: bytes) -> None:
    with suppress(OSError):
        connection.sendall(said)


@pytest.mark.parametrize(
    ("said", "status"),
    [
        (request_of(f"GET {PREFIX}/agents HTTP/1.1".encode(), b"X: " + b"x" * 10_000), b"400"),
        (request_of(f"GET {PREFIX}/agents?{'x' * 10_000} HTTP/1.1".encode()), b"400"),
        (
            request_of(
                f"GET {PREFIX}/agents HTTP/1.1".encode(), *(b"X%d: 1" % n for n in range(40))
            ),
            b"400",
        ),
        (b"nonsense\r\n\r\n", b"400"),
        (request_of(f"GET {PREFIX}/runs/\xff\xed\xa0\x80 HTTP/1.1".encode("latin-1")), b"400"),
        (request_of(f"GET {PREFIX}/runs/%ff%00%ed%a0%80 HTTP/1.1".encode()), b"404"),
        (request_of(f"GET {PREFIX}/nothing/\xff HTTP/1.1".encode("latin-1")), b"400"),
        (request_of(f"GET {PREFIX}/runs?sweep=\xff HTTP/1.1".encode("latin-1")), b"400"),
        (request_of(f"GET {PREFIX}/agents HTTP/1.1".encode(), b"Expect: tea"), b"417"),
    ],
)
def test_heads_that_are_none(api: Served, said: bytes, status: bytes) -> None:
    assert spoken(api, said).split(b" ")[1] == status


TOKEN = SECRETS[Scope.SUBMITTER].encode()


@pytest.mark.parametrize(
    "line",
    [
        b"Authorization: Bearer %b\x01" % TOKEN,
        b"Authorization : Bearer %b" % TOKEN,
        b"Authorization: Bearer %b%b" % (TOKEN, b"x" * 10_000),
    ],
)
def test_the_log_has_no_token_of_a_malformed_request(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, line: bytes
) -> None:
    with served(prepared(tmp_path / "home", sweeps=0), options()) as api:
        said = b"\r\n".join([b"GET /api/v1/agents HTTP/1.1", b"Host: x", line, b"", b""])
        assert spoken(api, said).split(b" ")[1] == b"400"
    assert "it is no proper HTTP" in caplog.text
    assert TOKEN.decode()[:8] not in caplog.text


def test_connections_without_a_token_keep_nobody_out(api: Served) -> None:
    host, port = api.url.rpartition("/")[2].split(":")
    with ExitStack() as stack:
        for _ in range(MAX_WITHOUT_TOKEN + 10):
            stack.enter_context(socket.create_connection((host, int(port)), PATIENCE_S))
        fresh = httpx.get(
            f"{api.url}{PREFIX}/agents",
            headers={"Authorization": f"Bearer {SECRETS[Scope.VIEWER]}"},
            timeout=PATIENCE_S,
        )
        assert fresh.status_code == 200


def made(folder: Path) -> Certificate:
    folder.mkdir(mode=0o700, exist_ok=True)
    return own_certificate(folder, LOOPBACK, datetime.now(UTC))


def test_a_certificate_is_made_once_and_only_the_owner_reads_its_key(tmp_path: Path) -> None:
    files = made(tmp_path)
    assert files.key.stat().st_mode & 0o777 == 0o600
    first = fingerprint_of(files.certificate)
    assert len(first) == 32 * 3 - 1
    assert fingerprint_of(made(tmp_path).certificate) == first
    other = Certificate(tmp_path / "other.pem", tmp_path / "other.key")
    certificate, key = make_certificate("farm.example", NOW)
    write_private(other.certificate, certificate)
    write_private(other.key, key)
    assert fingerprint_of(other.certificate) != first
    with pytest.raises(UserError, match="with the key"):
        tls_of(Certificate(files.certificate, other.key))


def test_a_key_that_others_can_read_is_refused(tmp_path: Path) -> None:
    files = made(tmp_path)
    files.key.chmod(0o640)
    with pytest.raises(UserError, match="others can read it"):
        tls_of(files)


@pytest.mark.parametrize("content", ["", "nonsense", "-----BEGIN CERTIFICATE-----\nx\n"])
def test_what_is_no_certificate_is_one_line(tmp_path: Path, content: str) -> None:
    files = made(tmp_path)
    files.certificate.write_text(content)
    for look in (lambda: tls_of(files), lambda: fingerprint_of(files.certificate)):
        with pytest.raises(UserError, match="Give a PEM"):
            look()


@pytest.mark.parametrize("address", ["10.0.0.1:8443", "192.0.2.7:1"])
def test_without_tls_only_loopback_is_served(address: str) -> None:
    with pytest.raises(UserError, match="others on the network can read tokens"):
        certificate_of(Address.parse("--listen", address, None), None, None, plain=True)


def test_loopback_may_be_served_without_tls() -> None:
    for address in ("127.0.0.1:8443", "127.9.9.9:8443"):
        found = certificate_of(Address.parse("--listen", address, None), None, None, plain=True)
        assert found is None


@pytest.mark.parametrize("given", [(True, False), (False, True)])
def test_a_certificate_comes_with_its_key(given: tuple[bool, bool]) -> None:
    certificate, key = (Path("x.pem") if one else None for one in given)
    address = Address.parse("--listen", "127.0.0.1:8443", None)
    with pytest.raises(UserError, match="belong together"):
        certificate_of(address, certificate, key, plain=False)
    with pytest.raises(UserError, match="--plain has no certificate"):
        certificate_of(address, certificate, key, plain=True)


def test_over_tls_a_client_that_trusts_the_certificate_reads(tmp_path: Path) -> None:
    home = prepared(tmp_path / "home", sweeps=1)
    files = made(home.path)
    trust = ssl.create_default_context(cafile=str(files.certificate))
    with served(home, options(tls=tls_of(files)), "https") as api:
        headers = {"Authorization": f"Bearer {SECRETS[Scope.VIEWER]}"}
        with httpx.Client(verify=trust, timeout=PATIENCE_S) as client:
            answer = client.get(f"{api.url}{PREFIX}/sweeps", headers=headers)
            assert answer.status_code == 200
            refused = client.get(f"{api.url}{PREFIX}/sweeps")
            assert refused.status_code == 401
            late = client.post(f"{api.url}{PREFIX}/sweeps", content=b"x" * 100_000)
            assert late.status_code == 401
        with httpx.Client(timeout=PATIENCE_S) as stranger, pytest.raises(httpx.ConnectError):
            stranger.get(f"{api.url}{PREFIX}/sweeps", headers=headers)
        plain = spoken(api, request_of(f"GET {PREFIX}/sweeps HTTP/1.1".encode()))
        assert b"retinanet" not in plain


def test_peers_that_never_finish_a_handshake_keep_nobody_out(tmp_path: Path) -> None:
    home = prepared(tmp_path / "home", sweeps=1)
    with served(home, options(tls=tls_of(made(home.path))), "https") as api, ExitStack() as stack:
        host, port = api.url.rpartition("/")[2].split(":")
        silent = [
            stack.enter_context(socket.create_connection((host, int(port)), PATIENCE_S))
            for _ in range(MAX_WITHOUT_TOKEN + 10)
        ]
        assert api.get("/agents").status_code == 200
        assert silent[0].recv(1) == b"", "the oldest is dropped"


def test_a_handshake_has_a_time_limit(tmp_path: Path) -> None:
    home = prepared(tmp_path / "home", sweeps=1)
    short = options(tls=tls_of(made(home.path)), head_timeout_s=0.1)
    with served(home, short, "https") as api:
        host, port = api.url.rpartition("/")[2].split(":")
        with socket.create_connection((host, int(port)), PATIENCE_S) as connection:
            assert connection.recv(1) == b""
        assert api.get("/agents").status_code == 200
