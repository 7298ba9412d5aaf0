"""What a user's side says where the controller isn't, or is another's."""

from __future__ import annotations

import json
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path

import pytest

from controller.contracts.administration import TokenList
from controller.contracts.errors import FarmUnavailable, UserError
from controller.runtime.client import TOKEN_VARIABLE, FarmClient, Patience, Timings
from controller.runtime.home import Home
from controller.runtime.options import URL_VARIABLE


@pytest.fixture
def nobody() -> str:
    """A port of loopback on which nobody listens."""
    with socket.create_server(("127.0.0.1", 0)) as held:
        port = held.getsockname()[1]
    return f"http://127.0.0.1:{port}"


class _Other(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        self.send_response(200 if "token" in self.path else 403)
        self.end_headers()
        self.wfile.write(b"<html>no")

    def do_POST(self) -> None:
        self.send_response(200 if "cancel" in self.path else 503)
        self.end_headers()
        self.wfile.write(b'{"jobs": 1}')

    def log_request(self, *_: object) -> None:
        """Say nothing."""


@pytest.fixture
def other() -> Iterator[str]:
    """A web server that is no controller."""
    with serving(_Other) as url:
        yield url


def client(home: Path, url: str, token: str | None = "ann's") -> FarmClient:
    environ = {URL_VARIABLE: url} | ({TOKEN_VARIABLE: token} if token else {})
    return FarmClient(Home(home), environ)


def test_a_controller_that_is_away_is_named(nobody: str, tmp_path: Path) -> None:
    there = client(tmp_path, nobody)
    with pytest.raises(FarmUnavailable, match=nobody):
        there.sweep_status("s-1")
    with pytest.raises(FarmUnavailable, match=nobody):
        there.administer(TokenList, "tokens")
    with pytest.raises(FarmUnavailable, match=nobody), there.events("s-1"):
        pass


def test_what_is_no_controller_is_told(other: str, tmp_path: Path) -> None:
    there = client(tmp_path, other)
    with pytest.raises(UserError, match=r"it answered with status 403\. .*not a controller"):
        there.sweep_status("s-1")
    with pytest.raises(UserError, match=r"its answer is not a controller's\. .*not a controller"):
        there.administer(TokenList, "tokens")
    with pytest.raises(UserError, match="its answer is not a controller's"):
        there.cancel("s-1")
    with pytest.raises(FarmUnavailable, match="it answered with status 503"):
        there.resume("s-1")


def test_a_controller_that_is_waited_for_is_named_once(capsys: pytest.CaptureFixture[str]) -> None:
    away = FarmUnavailable("calling it", "nobody listens", "wait")
    patience = Patience("at http://h:1", timings=Timings(retry_s=0.0))
    patience.wait(away)
    patience.wait(away)
    assert capsys.readouterr().err == "waiting up to 60 s for the controller at http://h:1\n"
    patience.ends = 0.0
    with pytest.raises(FarmUnavailable, match="nobody listens"):
        patience.wait(away)


@pytest.mark.parametrize("token", ["größe", "one two", "a\x00b"])
def test_a_token_that_is_none_is_not_repeated(nobody: str, tmp_path: Path, token: str) -> None:
    with pytest.raises(
        UserError, match=f"cannot read {TOKEN_VARIABLE}: it is not one token"
    ) as seen:
        client(tmp_path, nobody, token).sweep_status("s-1")
    assert token not in str(seen.value)


def test_an_address_that_is_none_is_told(tmp_path: Path) -> None:
    for url in ("http://here:port", "http://h:99999999", "here", "ftp://h", "http://", "h:1"):
        with pytest.raises(
            UserError, match=rf"cannot use {URL_VARIABLE}={url}: .*\. Write http://HOST:PORT"
        ):
            client(tmp_path, url).cancel("s-1")


def test_a_home_s_own_token_goes_nowhere_else(nobody: str, tmp_path: Path) -> None:
    (tmp_path / "api-token").write_text("secret")
    with pytest.raises(UserError, match=f"{TOKEN_VARIABLE} is not set"):
        client(tmp_path, nobody, token=None).sweep_status("s-1")


class _Endless(BaseHTTPRequestHandler):
    """Answers with more than anybody wants to read, until the asker leaves."""

    def do_GET(self) -> None:
        self.send_response(200 if "events" in self.path or "token" in self.path else 403)
        self.end_headers()
        with suppress(ConnectionError):
            while True:
                self.wfile.write(b"x" * 2**16)

    def log_request(self, *_: object) -> None:
        """Say nothing."""


class _Talkative(_Endless):
    """Complains as a controller does, at length."""

    def do_GET(self) -> None:
        self.send_response(400)
        self.end_headers()
        words = "line\n" * 100_000
        complaint = {"kind": "UserError", "tried": words, "seen": words, "remedy": words}
        self.wfile.write(json.dumps(complaint).encode())


@contextmanager
def serving(handler: type[BaseHTTPRequestHandler]) -> Iterator[str]:
    with HTTPServer(("127.0.0.1", 0), handler) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()
        thread.join()


def test_an_endless_answer_is_not_read_to_its_end(tmp_path: Path) -> None:
    with serving(_Endless) as url:
        there = client(tmp_path, url)
        for ask in (
            lambda: there.sweep_status("s-1"),
            lambda: there.administer(TokenList, "tokens"),
        ):
            with pytest.raises(UserError, match="its answer is longer than 8 MiB"):
                ask()
        with (
            there.events("s-1") as events,
            pytest.raises(UserError, match="its answer is not a controller's"),
        ):
            next(events)


def test_a_long_complaint_is_cut(tmp_path: Path) -> None:
    with serving(_Talkative) as url, pytest.raises(UserError) as refusal:
        client(tmp_path, url).sweep_status("s-1")
    assert len(str(refusal.value)) < 13_000
    assert len(str(refusal.value).splitlines()) == 1
