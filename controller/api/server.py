"""The API over HTTP: tokens, limits, ETags and problems around the table of routes."""

from __future__ import annotations

import asyncio
import hashlib
import logging
import math
import os
import ssl
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from io import BytesIO
from pathlib import Path
from typing import Any, Final

from aiohttp import web
from aiohttp.typedefs import Handler, Middleware

from controller.api.bodies import read_body
from controller.api.description import described
from controller.api.front import Front, Value
from controller.api.identity import REALM, Caller, caller_of, known_digests, require
from controller.api.prefix import PREFIX
from controller.api.problems import (
    MEDIA_TYPE,
    Problem,
    TooFast,
    Unauthenticated,
    problem,
    problem_of,
)
from controller.api.queries import NoQuery, parse
from controller.api.rates import Rate, RateLimit
from controller.api.reads import Ids, Reading, record_of
from controller.api.route_kinds import Export, ExportRoute, ReadRoute, WriteRoute
from controller.api.routes import DESCRIPTION, EVENTS, EXPORTS, READS, WRITES
from controller.api.streams import send_events, send_export
from controller.contracts.base import Contract
from controller.contracts.errors import HomeUnusable, NotFound, StoreUnavailable, UserError
from controller.metrics.web_server import (
    HEAD_TIMEOUT_S,
    SEND_S,
    WebServer,
    answered,
    answered_openly,
    listen,
    once_per_period,
    serve,
    turned_away,
)
from controller.platform.terminal import LONGEST
from controller.runtime.access import bearer, digest_of
from controller.runtime.addresses import Address, family_of
from controller.runtime.home import Home
from controller.store.reading import SqliteReader
from controller.store.sqlite import SqliteStore

log = logging.getLogger(__name__)
OF_TOKENS: Final = Rate(per_s=20.0, burst=100)
"""Requests of one user."""
OF_STRANGERS: Final = Rate(per_s=1.0, burst=20)
"""Refused tokens from one address."""
KNOWN_FOR_S: Final = 1.0
"""For so long, the tokens that were read are used to turn away who guesses them."""
AT_ONCE: Final = 4
"""Requests that read the store at the same time; others wait for their turn."""
WRITES_AT_ONCE: Final = 2
"""Requests that ask the controller at the same time: if it is stuck, readers have their turns."""
END_S: Final = 5.0
"""For so long, requests under way are waited for when the server ends."""
MAX_BODY_BYTES: Final = 2**18
BODY_TIMEOUT_S: Final = 30.0
PIECE_BYTES: Final = 2**16
CALLER: Final = web.RequestKey("api_caller", Caller)
NO_HEADERS: Final[Mapping[str, str]] = {}
SAFE: Final = {"X-Content-Type-Options": "nosniff", "Cache-Control": "private, no-cache"}
"""Headers of every answer: JSON is never taken for a page, and nothing is shared."""


@dataclass(frozen=True, slots=True)
class ApiOptions:
    """Where the API listens, and its limits."""

    host: str
    port: int
    """0 for any free port."""
    tls: ssl.SSLContext | None = None
    rate: Rate = OF_TOKENS
    strangers: Rate = OF_STRANGERS
    max_body_bytes: int = MAX_BODY_BYTES
    body_timeout_s: float = BODY_TIMEOUT_S
    head_timeout_s: float = HEAD_TIMEOUT_S
    end_s: float = END_S
    front: Front | None = None
    """Pages that are served, too, beside the API."""
    send_s: float = SEND_S
    clock: Callable[[], float] = time.monotonic
    """Seconds; never steps back."""


async def serve_api(home: Home, version: str, options: ApiOptions) -> WebServer:
    """Serve until the server is cleaned up or the event loop ends.

    Raises NotFound if nothing was ever stored, HomeUnusable, and UserError if the address can't be
    used.
    """
    source = Source(home.store)
    source.reader()
    server = _Server(home, source, version, options)
    app = web.Application(middlewares=[server.guard()], client_max_size=options.max_body_bytes)
    app.add_routes(
        [
            *(
                web.get(f"{PREFIX}{route.path}", server.reading(route), allow_head=False)
                for route in READS
            ),
            *(
                web.route(route.method, f"{PREFIX}{route.path}", server.writing(route))
                for route in WRITES
            ),
            *(
                web.get(f"{PREFIX}{route.path}", server.exporting(route), allow_head=False)
                for route in EXPORTS
            ),
            web.get(f"{PREFIX}{EVENTS}", server.watch, allow_head=False),
            web.get(DESCRIPTION, server.describe, allow_head=False),
            *(options.front.routes(server) if options.front else ()),
        ]
    )
    app.on_cleanup.append(source.on_cleanup)
    try:
        listener = listen(options.host, options.port, family_of(options.host))
    except OSError as error:
        remedy = "Give an address of this host and a free port."
        seen = error.strerror or str(error)
        tried = f"listen on {Address(options.host, options.port)}"
        raise UserError(tried, seen, remedy) from error
    return await serve(
        *(app, listener, options.head_timeout_s),
        tls=options.tls,
        end_s=options.end_s,
        send_s=options.send_s,
    )


class Source:
    """The store's file, opened again when another one has taken its place."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._lock = threading.Lock()
        self._opened: tuple[tuple[int, int], SqliteReader] | None = None

    def reader(self) -> SqliteReader:
        """Return the open store; raises NotFound, HomeUnusable."""
        with self._lock:
            identity = self._identity()
            if self._opened is None or self._opened[0] != identity:
                former, self._opened = self._opened, None
                if former:
                    former[1].close()
                self._opened = identity, SqliteStore.open_reader(self._path)
            return self._opened[1]

    async def on_cleanup(self, _: web.Application) -> None:
        """Close the store with the server."""
        if self._opened:
            self._opened[1].close()

    def _identity(self) -> tuple[int, int]:
        try:
            status = os.stat(self._path)  # noqa: PTH116 - one call for both numbers
        except OSError:
            return 0, 0  # the reader says why it can't be opened
        return status.st_dev, status.st_ino


class _Server:
    def __init__(self, home: Home, source: Source, version: str, options: ApiOptions) -> None:
        self._home = home
        self._source = source
        self._options = options
        self._reading = asyncio.Semaphore(AT_ONCE)
        self._writing = asyncio.Semaphore(WRITES_AT_ONCE)
        self._callers = RateLimit(options.rate, options.clock)
        self._strangers = RateLimit(options.strangers, options.clock)
        self._known: frozenset[str] = frozenset()
        self._known_at = -math.inf
        self._listing = asyncio.Lock()
        self._log = once_per_period(log)
        self._description = described(version)

    def guard(self) -> Middleware:
        """Return what stands before every route."""

        @web.middleware
        async def guard(request: web.Request, handler: Handler) -> web.StreamResponse:
            try:
                return await self._admit(request, handler)
            except Unauthenticated as error:
                refusal = self._refusal(request, problem_of(error), {"WWW-Authenticate": REALM})
                return await turned_away(request, refusal)
            except _Wait as wait:
                refusal = self._refused(request, *_too_fast(wait.seconds))
                return await turned_away(request, refusal) if wait.stranger else refusal
            except (UserError, StoreUnavailable) as error:
                if isinstance(error, StoreUnavailable | HomeUnusable):
                    self._log.error("the store cannot be read: %s", error)
                return self._refused(request, problem_of(error))
            except web.HTTPException as error:
                return self._refusal(request, *_of_aiohttp(request, error))
            except Exception:
                log.exception("%s %s failed", request.method, request.path[:LONGEST])
                said = problem(500, "the server has a fault", "See the server's log.")
                return self._refusal(request, said)

        return guard

    def _refused(self, request: web.Request, said: Problem, wait_s: int = 1) -> web.Response:
        headers = {"Retry-After": str(wait_s)} if said.status == 429 else {}
        return self._refusal(request, said, headers)

    def _refusal(
        self, request: web.Request, said: Problem, headers: Mapping[str, str] = NO_HEADERS
    ) -> web.Response:
        front = self._options.front
        if front and front.serves(request):
            return front.refused(request, said, headers)
        return _refusal(said, headers)

    async def _admit(self, request: web.Request, handler: Handler) -> web.StreamResponse:
        front, said = self._options.front, request.headers.get("Authorization", "")
        if front and front.serves(request):
            if front.is_open(request):
                return await answered_openly(request, handler)
            said = front.authorization(request)
        caller = await self.caller(request, said)
        request[CALLER] = caller
        return await answered(request, caller.name, handler)

    async def caller(self, request: web.Request, authorization: str) -> Caller:
        """See Backing."""
        address = request.remote or ""
        wait_s = self._strangers.wait_s(address)
        if wait_s and not await self._may_be_known(authorization):
            raise _Wait(wait_s, stranger=True)
        try:
            caller: Caller = await self._in_turn(self._caller, authorization)
        except (Unauthenticated, StoreUnavailable, HomeUnusable):
            self._strangers.take(address)  # whoever it is, if the store can't tell
            raise
        if wait_s := self._callers.take(caller.name):
            raise _Wait(wait_s, stranger=False)
        return caller

    async def read(self, work: Callable[[Reading], Value]) -> Value:
        """See Backing."""
        async with self._reading:
            return await asyncio.to_thread(lambda: work(self._farm()))

    async def write(self, work: Callable[[Reading], Value]) -> Value:
        """See Backing."""
        async with self._writing:
            return await asyncio.to_thread(lambda: work(self._farm()))

    def _farm(self) -> Reading:
        return Reading(self._store(), self._home)

    async def _may_be_known(self, authorization: str) -> bool:
        """Return whether a token was there when all were last read, at little cost.

        Whoever guesses tokens holds up nobody who has one, also from the same address.
        """
        async with self._listing:
            now = self._options.clock()
            if now - self._known_at >= KNOWN_FOR_S:
                self._known_at = now  # also if it fails: those who were known stay so
                self._known = await self._in_turn(self._digests)
        given = bearer(authorization)
        return given is not None and digest_of(given) in self._known

    def _store(self) -> SqliteReader:
        try:
            return self._source.reader()
        except NotFound as error:  # it was there when this server began
            raise HomeUnusable(error.tried, error.seen, error.remedy) from error

    def _digests(self) -> frozenset[str]:
        return known_digests(self._store(), self._home)

    def _caller(self, authorization: str) -> Caller:
        return caller_of(authorization, self._store(), self._home)

    def reading(self, route: ReadRoute[Any]) -> Handler:
        """Return the handler of a GET route."""

        async def handle(request: web.Request) -> web.StreamResponse:
            asked = parse(route.query, list(request.query.items()))
            body = await self._in_turn(self._read, route, asked, dict(request.match_info))
            return tagged(request, body)

        return handle

    def writing(self, route: WriteRoute[Any]) -> Handler:
        """Return the handler of a route that asks the controller."""

        async def handle(request: web.Request) -> web.StreamResponse:
            caller = request[CALLER]
            require(caller, route.scope, f"answer {route.method} {PREFIX}{route.path}")
            parse(NoQuery, list(request.query.items()))
            body = None
            if route.body:
                body = await read_body(route.body, request, self._options.body_timeout_s)
            ids = dict(request.match_info)
            async with self._writing:
                made = await asyncio.to_thread(self._write, route, caller, body, ids)
            return web.Response(body=made, content_type="application/json", headers=SAFE)

        return handle

    def exporting(self, route: ExportRoute[Any]) -> Handler:
        """Return the handler of a route that returns all items at once."""

        async def handle(request: web.Request) -> web.StreamResponse:
            asked = parse(route.query, list(request.query.items()))
            export = await self._in_turn(self._export, route, asked)
            return await send_export(request, export, self._in_turn, self._options.send_s)

        return handle

    async def watch(self, request: web.Request) -> web.StreamResponse:
        """Answer with a sweep's events until the caller leaves or has no valid token any more."""
        parse(NoQuery, list(request.query.items()))
        sweep_id = request.match_info["sweep_id"]
        await self._in_turn(lambda: record_of(self._store(), sweep_id))
        said = request.headers.get("Authorization", "")

        async def require_valid() -> None:
            await self._in_turn(self._caller, said)

        return await send_events(request, self._home, sweep_id, require_valid)

    async def describe(self, request: web.Request) -> web.StreamResponse:
        """Answer with the description."""
        parse(NoQuery, list(request.query.items()))
        return tagged(request, self._description)

    def _read(self, route: ReadRoute[Any], asked: NoQuery, ids: Ids) -> bytes:
        found = route.work(Reading(self._store(), self._home), asked, ids)
        return _json(found)

    def _export(self, route: ExportRoute[Any], asked: NoQuery) -> Export:
        return route.work(Reading(self._store(), self._home), asked)

    def _write(
        self, route: WriteRoute[Any], caller: Caller, body: Contract | None, ids: Ids
    ) -> bytes:
        farm = Reading(self._store(), self._home)
        return _json(route.work(farm, caller, body, ids))

    async def _in_turn(self, work: Callable[..., Any], *given: Any) -> Any:  # noqa: ANN401
        async with self._reading:
            return await asyncio.to_thread(work, *given)


class _Wait(Exception):
    """A request beyond the rate; seconds: after which it may be repeated."""

    def __init__(self, seconds: float, *, stranger: bool) -> None:
        super().__init__(seconds)
        self.seconds = seconds
        self.stranger = stranger


def _json(found: Contract) -> bytes:
    return found.model_dump_json(by_alias=True).encode()


def tagged(request: web.Request, body: bytes) -> web.Response:
    """Return the answer of a GET route, or 304 if the caller has it."""
    tag = etag_of(body)
    headers = {**SAFE, "ETag": tag}
    if is_known(request.headers.getall("If-None-Match", []), tag):
        return web.Response(status=304, headers=headers)
    # In pieces if it is large: over TLS, a single write of all is taken at once, however slowly it
    # is read, and the rest is lost when the connection is closed as idle.
    sent = BytesIO(body) if len(body) > PIECE_BYTES else body
    return web.Response(body=sent, content_type="application/json", headers=headers)


def etag_of(body: bytes) -> str:
    """Return the strong ETag of an answer."""
    return f'"{hashlib.sha256(body).hexdigest()[:32]}"'


def is_known(given: list[str], tag: str) -> bool:
    """Return whether If-None-Match names a tag (RFC 9110, 13.1.2: weak comparison)."""
    said = [one.strip().removeprefix("W/") for line in given for one in line.split(",")]
    return tag in said or "*" in said


def _too_fast(wait_s: float) -> tuple[Problem, int]:
    seconds = max(1, math.ceil(wait_s))
    error = TooFast("answer the request", "too many were made", f"Wait {seconds} s.")
    return problem_of(error), seconds


def _of_aiohttp(
    request: web.Request, error: web.HTTPException
) -> tuple[Problem, Mapping[str, str]]:
    """Return the problem for an address or a method that there is not."""
    where = request.path[:LONGEST]
    remedy = f"See {DESCRIPTION}."
    if isinstance(error, web.HTTPMethodNotAllowed):
        said = problem(405, f"{where} has no {error.method[:LONGEST]}", remedy)
        return said, {"Allow": ", ".join(sorted(error.allowed_methods))}
    return problem(404, f"there is no {where}", remedy), NO_HEADERS


def _refusal(said: Problem, headers: Mapping[str, str]) -> web.Response:
    return web.Response(
        text=said.model_dump_json(),
        status=said.status,
        content_type=MEDIA_TYPE,
        headers={**SAFE, **headers},
    )
