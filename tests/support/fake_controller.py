"""A controller that only tells of a sweep's events, and then goes away."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread

from controller.contracts.wire import RunEvent
from controller.metrics.exporter import LOOPBACK
from controller.platform.atomic import write_private
from controller.runtime.home import Endpoint, Home


@dataclass(slots=True)
class Told:
    """What it was asked for, and how often."""

    path: str = ""
    asked: int = 0


@contextmanager
def telling_controller(home: Home, events: Sequence[RunEvent | None]) -> Iterator[Told]:
    """Have a home's controller tell of some events, None for a line without one."""
    told, token = Told(), home.read_token(home.api_token)

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            assert self.headers["Authorization"] == f"Bearer {token}"
            told.path, told.asked = self.path, told.asked + 1
            self.send_response(200)
            self.end_headers()
            for event in events:
                self.wfile.write(event.model_dump_json().encode() if event else b"")
                self.wfile.write(b"\n")

        def log_message(self, *_: object) -> None:
            pass

    with ThreadingHTTPServer((LOOPBACK, 0), Handler) as server:
        thread = Thread(target=server.serve_forever)
        thread.start()
        url = f"http://{LOOPBACK}:{server.server_address[1]}"
        write_private(home.endpoint_file, Endpoint(url=url, version="", pid=1).model_dump_json())
        try:
            yield told
        finally:
            home.endpoint_file.unlink()
            server.shutdown()
            thread.join()
