"""A server of HTTP that gives one answer to all, and may then keep silent."""

from __future__ import annotations

import select
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from controller.metrics.exporter import LOOPBACK

LOOK_S = 0.05


@dataclass(slots=True)
class Peer:
    """A server of HTTP with one answer, which it may hold back."""

    status: int = 200
    pieces: Sequence[bytes] = ()
    """Its content."""
    headers: dict[str, str] = field(default_factory=dict)
    silent: bool = False
    """Whether nothing follows the head of an answer, or no answer a POST."""
    url: str = ""
    asked: list[str] = field(default_factory=list)
    held: list[str] = field(default_factory=list)
    """The paths of connections on which it keeps silent."""
    most_held: int = 0
    """At the same time."""


@contextmanager
def answering(peer: Peer) -> Iterator[Peer]:
    """Serve a peer on a free port."""
    ended = threading.Event()

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            peer.asked.append(f"{self.command} {self.path}")
            self.rfile.read(int(self.headers.get("Content-Length", "0")))
            if peer.silent and self.command == "POST":
                ended.wait()
                return
            self.send_response(peer.status)
            for name, value in peer.headers.items():
                self.send_header(name, value)
            self.end_headers()
            for piece in peer.pieces:
                self.wfile.write(piece)
            if peer.silent:
                peer.held.append(self.path)
                peer.most_held = max(peer.most_held, len(peer.held))
                while not (ended.is_set() or self.has_left()):
                    pass
                peer.held.remove(self.path)

        def has_left(self) -> bool:
            readable, _, _ = select.select([self.connection], [], [], LOOK_S)
            try:
                return bool(readable) and not self.connection.recv(1)
            except ConnectionError:  # it left before it was answered
                return True

        do_POST = do_GET  # noqa: N815 - the name that http.server calls

        def log_message(self, *_: object) -> None:
            pass

    with ThreadingHTTPServer((LOOPBACK, 0), Handler) as server:
        peer.url = f"http://{LOOPBACK}:{server.server_address[1]}"
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            yield peer
        finally:
            ended.set()
            server.shutdown()
            thread.join()
