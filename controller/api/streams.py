"""Answers of the API that are sent while they are made: exports, and a sweep's events."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncGenerator, Awaitable, Callable, Coroutine, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager
from typing import Any, Final
from urllib.parse import quote

import httpx
from aiohttp import web
from pydantic import ValidationError

from controller.api.problems import own_fault
from controller.api.replies import PIECE_BYTES
from controller.api.route_kinds import TOTAL, Export
from controller.contracts.error_payload import ErrorPayload
from controller.contracts.errors import FarmUnavailable, OverQuota, UserError
from controller.metrics.web_server import TooManyRequests, drop_unread
from controller.platform.peers import check_peer_async
from controller.runtime.client import QUIET_S
from controller.runtime.home import Home

HEADERS: Final = {"X-Content-Type-Options": "nosniff", "Cache-Control": "private, no-store"}
CONNECT_S: Final = 10.0
CHECK_S: Final = 5.0
"""After so many seconds the token of who watches is looked up again."""
LOOK_S: Final = 0.5
"""After so many seconds at most it is noticed that who watches has left."""
MAX_REFUSAL_BYTES: Final = 2**16
InTurn = Callable[..., Awaitable[Any]]
"""Calls a function in a thread, when it is its turn."""


async def send_export(
    request: web.Request, export: Export, in_turn: InTurn, send_s: float
) -> web.StreamResponse:
    """Send an export, as `send_pieces` does."""
    response = web.StreamResponse(headers={**HEADERS, TOTAL: str(export.total)})
    response.content_type = export.media_type
    return await send_pieces(request, response, export.pieces, in_turn, send_s)


async def send_pieces(
    request: web.Request,
    response: web.StreamResponse,
    pieces: Iterator[bytes],
    in_turn: InTurn,
    send_s: float,
) -> web.StreamResponse:
    """Send an answer piece by piece; the connection is cut if it cannot be read on, or if a piece
    is not taken within send_s seconds.

    A piece is sent in parts, see `in_pieces`.
    """
    first = await in_turn(next, pieces, b"")
    try:
        async with asyncio.timeout(send_s):
            await response.prepare(request)
        piece: bytes | None = first
        while piece is not None:
            async with asyncio.timeout(send_s):
                for start in range(0, len(piece), PIECE_BYTES):
                    await response.write(piece[start : start + PIECE_BYTES])
            piece = await in_turn(next, pieces, None)
    except ConnectionError:
        return response  # the caller has left
    except TimeoutError:
        drop_unread(request)
    except Exception:
        if request.transport:  # a whole answer must not be taken for what was sent so far
            request.transport.abort()
        raise
    return response


class Watchers:
    """Who watches sweeps now: nobody takes all the streams that the controller has for the API."""

    def __init__(self, most: int, most_of_user: int) -> None:
        self._most = most
        self._most_of_user = most_of_user
        self._watching: Counter[str] = Counter()

    @contextmanager
    def watching(self, user: str) -> Iterator[None]:
        """Count a stream until the controller's is closed, too; raises TooManyRequests."""
        tried, remedy = "watch the sweep", "End another watch first, or repeat it later."
        if self._watching[user] >= self._most_of_user:
            raise TooManyRequests(tried, f"{user} watches {self._most_of_user} already", remedy)
        if self._watching.total() >= self._most:
            raise TooManyRequests(tried, f"{self._most} are watched already", remedy)
        self._watching[user] += 1
        try:
            yield
        finally:
            self._watching[user] -= 1


async def while_there(
    request: web.Request, sending: Coroutine[Any, Any, web.StreamResponse]
) -> web.StreamResponse:
    """Return what is sent to a caller; it is cancelled soon after the caller has left.

    For what may have nothing to send for long, which is when the server would notice.
    """
    task = asyncio.ensure_future(sending)
    try:
        while request.transport:
            if task in (await asyncio.wait([task], timeout=LOOK_S))[0]:
                return task.result()
        return web.Response()
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


async def send_events(
    request: web.Request,
    home: Home,
    sweep_id: str,
    require_valid: Callable[[], Awaitable[None]],
    send_s: float,
) -> web.StreamResponse:
    """Send a sweep's events, as the controller tells of them, until the caller leaves.

    require_valid: raises if the token of the caller is no longer valid. Ends when the controller
    goes away, or if an event is not taken within send_s seconds. Raises FarmUnavailable,
    HomeUnusable, and the controller's UserError.
    """
    response = web.StreamResponse(headers=HEADERS)
    response.content_type = "text/event-stream"
    clock = asyncio.get_running_loop().time
    async with _controller_lines(home, sweep_id) as lines:
        await response.prepare(request)
        checked = clock()
        try:
            async for line in lines:
                if clock() - checked >= CHECK_S:
                    await require_valid()
                    checked = clock()
                event = f"event: run\ndata: {line}\n\n" if line else ": nothing new\n\n"
                async with asyncio.timeout(send_s):
                    await response.write(event.encode())
        except (ConnectionError, httpx.TransportError):
            return response  # one of the two has left: the caller asks again
        except TimeoutError:
            drop_unread(request)
        except Exception:
            if request.transport:
                request.transport.abort()
            raise
    return response


@asynccontextmanager
async def _controller_lines(
    home: Home, sweep_id: str
) -> AsyncGenerator[AsyncGenerator[str, None], None]:
    """Give the lines of the controller's events: JSON, or nothing now and then."""
    tried = f"watch sweep {sweep_id}"
    remedy = "Repeat it later."
    headers = _headers(home)
    url = home.endpoint().url
    timeout = httpx.Timeout(CONNECT_S, read=QUIET_S)
    async with httpx.AsyncClient(
        base_url=url, headers=headers, timeout=timeout, trust_env=False
    ) as client:
        path = f"/v1/sweeps/{quote(sweep_id, safe='')}/events"
        request = client.build_request("GET", path, extensions={"trace": check_peer_async})
        try:
            response = await client.send(request, stream=True)
        except httpx.TransportError as error:
            raise FarmUnavailable(tried, str(error) or type(error).__name__, remedy) from error
        try:
            if response.status_code != httpx.codes.OK:
                raise await _refusal(response, tried)
            yield _lines(response)
        finally:
            await response.aclose()


async def _lines(response: httpx.Response) -> AsyncGenerator[str, None]:
    begun = ""
    async for chunk in response.aiter_text():
        *lines, begun = (begun + chunk).split("\n")
        for line in lines:
            yield line


async def _refusal(response: httpx.Response, tried: str) -> UserError:
    content = (await response.aread())[:MAX_REFUSAL_BYTES]
    try:
        refusal = ErrorPayload.model_validate_json(content).error()
    except ValidationError:
        seen = f"the controller answered with status {response.status_code}"
        return FarmUnavailable(tried, seen, "Repeat it later.")
    if isinstance(refusal, OverQuota):  # of streams: one is free soon after a watcher has left
        return TooManyRequests(refusal.tried, refusal.seen, refusal.remedy)
    return refusal


def _headers(home: Home) -> Mapping[str, str]:
    """Whoever may read may watch every sweep, so the farm's own token asks.

    Raises HomeUnusable if it cannot be read.
    """
    with own_fault():
        token = home.read_token(home.api_token)
    return {"Authorization": f"Bearer {token}", "Accept-Encoding": "identity"}
