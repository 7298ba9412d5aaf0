"""A Redis is taken only if it answers the farm, and nobody else on the network."""

from __future__ import annotations

import socketserver
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from controller.contracts.errors import UserError
from controller.platform.atomic import write_private
from controller.runtime.redis import RedisServer

PASSWORD = "three hosts"
DENIED = "-DENIED Redis is running in protected mode. In this mode connections are only accepted"
NOAUTH = "-NOAUTH Authentication required."


@contextmanager
def answering(*lines: str) -> Iterator[tuple[int, list[bytes]]]:
    """Serve on loopback whatever is asked; give the port and what each connection has asked."""
    heard: list[bytes] = []
    rest = iter(lines)

    class Handler(socketserver.BaseRequestHandler):
        def handle(self) -> None:
            heard.append(self.request.recv(4096))
            self.request.sendall(f"{next(rest)}\r\n".encode())

    with socketserver.TCPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        try:
            yield server.server_address[1], heard
        finally:
            server.shutdown()
            thread.join()


@pytest.fixture
def password_file(tmp_path: Path) -> Path:
    file = tmp_path / "password"
    write_private(file, f"{PASSWORD}\n")
    return file


def test_it_is_asked_as_a_stranger_first(password_file: Path) -> None:
    with answering(NOAUTH, "+OK") as (port, heard):
        RedisServer.parse(f"127.0.0.1:{port}", password_file).require_usable()
    assert heard == [b"*1\r\n$4\r\nPING\r\n", b"*2\r\n$4\r\nAUTH\r\n$11\r\nthree hosts\r\n"]


@pytest.mark.parametrize("with_file", [False, True])
def test_on_loopback_too_it_needs_a_password(password_file: Path, with_file: bool) -> None:
    with answering("+PONG", "+OK") as (port, _):
        server = RedisServer.parse(f"127.0.0.1:{port}", password_file if with_file else None)
        with pytest.raises(UserError) as refusal:
            server.require_usable()
    assert refusal.value.seen == "it serves anyone who can reach it, without a password"


def test_of_a_long_answer_little_is_read() -> None:
    with answering("x" * 10_000_000) as (port, _), pytest.raises(UserError) as refusal:
        RedisServer.parse(f"127.0.0.1:{port}", None).require_usable()
    assert refusal.value.seen == "x" * 200


@pytest.mark.parametrize(
    ("host", "answers", "complaint"),
    [
        ("10.0.0.1", ["+PONG", "+OK"], "it serves anyone who can reach it, without a password"),
        ("10.0.0.1", [NOAUTH, "-WRONGPASS invalid"], "WRONGPASS invalid"),
        ("127.0.0.1", ["+PONG", "+OK"], "it serves anyone who can reach it, without a password"),
        ("127.0.0.1", ["+PONG", "-ERR AUTH <password> called without any"], "it serves anyone"),
        ("127.0.0.1", ["HTTP/1.0 400", ""], "it is not a Redis"),
    ],
)
def test_what_is_refused(
    host: str,
    answers: list[str],
    complaint: str,
    password_file: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    rest = iter(answers)
    monkeypatch.setattr(RedisServer, "_ask", lambda *_: next(rest))
    with pytest.raises(UserError, match=complaint):
        RedisServer.parse(f"{host}:6380", password_file).require_usable()


@pytest.mark.parametrize(("answer", "complaint"), [(DENIED, "DENIED"), (NOAUTH, "NOAUTH")])
def test_a_password_that_is_asked_for_is_to_be_given(answer: str, complaint: str) -> None:
    with answering(answer) as (port, _), pytest.raises(UserError) as refusal:
        RedisServer.parse(f"127.0.0.1:{port}", None).require_usable()
    assert complaint in refusal.value.seen
    assert "--redis-password-file" in refusal.value.remedy


def test_nobody_there() -> None:
    with answering() as (port, _):
        pass
    with pytest.raises(UserError, match="Connection refused"):
        RedisServer.parse(f"127.0.0.1:{port}", None).require_usable()


@pytest.mark.parametrize("content", [b"", b"\n", b"\xff"])
def test_a_file_without_a_password(content: bytes, tmp_path: Path) -> None:
    file = tmp_path / "password"
    file.touch(mode=0o600)
    file.write_bytes(content)
    with pytest.raises(UserError, match="--redis-password-file"):
        RedisServer.parse("127.0.0.1:6380", file)
