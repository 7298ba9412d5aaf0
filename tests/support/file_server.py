"""A server of files that misbehaves as told: cuts links, lies, redirects, fails."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer


@dataclass
class Served:
    """One file, and how the server misbehaves about it. Lists are used up, one a GET request."""

    content: bytes = b""
    etag: str | None = '"1"'
    statuses: list[int] = field(default_factory=list)
    """Statuses in place of the file."""
    cuts: list[int | None] = field(default_factory=list)
    """Bytes of a body after which the link is cut; None: it is not."""
    ranges: bool = True
    """Whether ranges are served."""
    shift: int = 0
    """Added to the begin of each range that is served."""
    length: int | None = None
    """Length that is claimed."""
    total: int | None = None
    """Bytes of the whole that are claimed beside a range, which then has no length."""
    chunked: bool = False
    """Whether no length is claimed."""
    location: str | None = None
    """Where it redirects to."""
    hold: threading.Event | None = None
    """Waited for before a body is sent, or its rest."""
    hold_after: int = 0
    """Bytes of the body that are sent before that."""


@dataclass
class FileServer:
    """The server's address, its files by path, and what was asked."""

    url: str
    files: dict[str, Served] = field(default_factory=dict)
    asked: list[tuple[str, str, str | None]] = field(default_factory=list)
    """Method, path, and range of each request."""
    began: threading.Event = field(default_factory=threading.Event)
    """Set by the first GET request."""

    @property
    def gets(self) -> list[str | None]:
        """The ranges of all GET requests for files that exist."""
        return [r for method, path, r in self.asked if method == "GET" and path in self.files]


@contextmanager
def file_server() -> Iterator[FileServer]:
    """Serve on a free port of loopback in this context."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), _Handler)
    served = FileServer(f"http://127.0.0.1:{server.server_port}")
    server.served = served  # type: ignore[attr-defined]
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    try:
        yield served
    finally:
        for file in served.files.values():
            if file.hold:
                file.hold.set()
        server.shutdown()
        thread.join()
        server.server_close()


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, *_: object) -> None:
        """Say nothing."""

    def do_HEAD(self) -> None:
        self._answer("HEAD")

    def do_GET(self) -> None:
        self._answer("GET")

    def _answer(self, method: str) -> None:
        served: FileServer = self.server.served  # type: ignore[attr-defined]
        served.asked.append((method, self.path, self.headers.get("Range")))
        file = served.files.get(self.path)
        if file is None:
            self._empty(404)
        elif file.location:
            self._empty(302, file.location)
        elif method == "HEAD":
            self._head(200, len(file.content), file)
        elif file.statuses:
            self._empty(file.statuses.pop(0))
        else:
            served.began.set()
            with suppress(ConnectionError):  # whoever asked has left
                self._file(file)

    def _file(self, file: Served) -> None:
        start, asked = 0, self.headers.get("Range")
        same = self.headers.get("If-Range") in (None, file.etag)
        if asked and file.ranges and same:
            start = int(asked.removeprefix("bytes=").removesuffix("-"))
            if start >= len(file.content):
                self.send_response(416)
                self.send_header("Content-Range", f"bytes */{len(file.content)}")
                self.send_header("Content-Length", "0")
                self.end_headers()
                return
        body = file.content[start:]
        cut = file.cuts.pop(0) if file.cuts else None
        self._head(206 if start else 200, len(body), file, start)
        if file.hold:
            self.wfile.write(body[: file.hold_after])
            body = body[file.hold_after :]
            file.hold.wait()
        if self._is_chunked(file, start):
            self.wfile.write(b"%x\r\n%s\r\n" % (len(body), body))
            self.wfile.write(b"" if cut else b"0\r\n\r\n")
        else:
            self.wfile.write(body[:cut])
        self.close_connection = cut is not None or file.length is not None or file.chunked

    def _head(self, status: int, length: int, file: Served, start: int = 0) -> None:
        self.send_response(status)
        if self._is_chunked(file, start):
            self.send_header("Transfer-Encoding", "chunked")
        else:
            self.send_header("Content-Length", str(file.length or length))
        if file.etag:
            self.send_header("ETag", file.etag)
        if status == 206:
            whole, begin = len(file.content), start + file.shift
            self.send_header("Content-Range", f"bytes {begin}-{whole - 1}/{file.total or whole}")
        self.end_headers()

    @staticmethod
    def _is_chunked(file: Served, start: int) -> bool:
        return file.chunked or (file.total is not None and start > 0)

    def _empty(self, status: int, location: str | None = None) -> None:
        self.send_response(status)
        self.send_header("Content-Length", "0")
        if location:
            self.send_header("Location", location)
        self.end_headers()
