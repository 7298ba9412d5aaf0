"""Answers that clients of httpx get and read piece by piece, noted once each has been read."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from urllib.parse import urlsplit

import httpx
import pytest

from controller.api.prefix import PREFIX


@dataclass(frozen=True, slots=True)
class NotedAnswer:
    """A request to the API, and its answer."""

    method: str
    path: str
    """Below the prefix."""
    answer: httpx.Response


class _Read(httpx.SyncByteStream):
    def __init__(self, response: httpx.Response, noted: list[NotedAnswer]) -> None:
        assert isinstance(response.stream, httpx.SyncByteStream)
        self._stream, self._response, self._noted = response.stream, response, noted
        self._content = b""

    def __iter__(self) -> Iterator[bytes]:
        for chunk in self._stream:
            self._content += chunk
            yield chunk

    def close(self) -> None:
        self._stream.close()
        response, request = self._response, self._response.request
        whole = httpx.Response(
            response.status_code, headers=response.headers, content=self._content
        )
        path = urlsplit(str(request.url)).path.removeprefix(PREFIX)
        self._noted.append(NotedAnswer(request.method, path, whole))


@contextmanager
def noted_answers() -> Iterator[list[NotedAnswer]]:
    """Give the answers that are read within the block, as they come."""
    noted: list[NotedAnswer] = []
    send = httpx.Client.send

    def noting(self: httpx.Client, request: httpx.Request, **options: object) -> httpx.Response:
        response = send(self, request, **options)  # type: ignore[arg-type]
        # In the same process, the API itself asks the controller.
        if options.get("stream") and request.url.path.startswith(PREFIX):
            response.stream = _Read(response, noted)
        return response

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(httpx.Client, "send", noting)
        yield noted


def route_of(path: str, routes: Mapping[str, object]) -> str:
    """Return the route, with `{…}`, that a path is of; raises LookupError if there is none."""
    below = [route.removeprefix(PREFIX) for route in routes]
    for route in sorted(below, key=lambda route: route.count("{")):
        pattern = re.sub(r"\\{\w+\\}", "[^/]+", re.escape(route))
        if re.fullmatch(pattern, path):
            return route
    raise LookupError(path)
