"""The API over HTTP: what answers the table of routes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from aiohttp import web
from aiohttp.typedefs import Handler

from controller.api.bodies import read_body
from controller.api.description import described
from controller.api.front import Value
from controller.api.guard import CALLER, Guard
from controller.api.identity import Caller, require
from controller.api.options import ApiOptions
from controller.api.prefix import PREFIX
from controller.api.problems import RangeBeyond, problem_of
from controller.api.queries import NoQuery, parse
from controller.api.ranges import Span, cut, span_of
from controller.api.reads import Ids, Reading, record_of, unknown
from controller.api.replies import SAFE, asked_range, in_pieces, is_known, refusal, tagged
from controller.api.route_kinds import Export, ExportRoute, ReadRoute, WriteRoute
from controller.api.routes import BINARY, CONTENT, DESCRIPTION, EVENTS, EXPORTS, READS, WRITES
from controller.api.source import Source, Threads
from controller.api.streams import (
    Watchers,
    send_events,
    send_export,
    send_pieces,
    while_there,
)
from controller.contracts.base import Contract
from controller.contracts.errors import UserError
from controller.metrics.web_server import WebServer, listen, serve
from controller.runtime.addresses import Address, family_of
from controller.runtime.home import Home


async def serve_api(home: Home, version: str, options: ApiOptions) -> WebServer:
    """Serve until the server is cleaned up or the event loop ends.

    Raises NotFound if nothing was ever stored, HomeUnusable, and UserError if the address can't be
    used.
    """
    source = Source(home.store)
    source.reader()
    threads = Threads()
    guard = Guard(home, source, threads, options)
    server = _Server(home, source, threads, guard, version, options)
    app = web.Application(middlewares=[guard.middleware()], client_max_size=options.max_body_bytes)
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
            web.get(f"{PREFIX}{CONTENT}", server.content, allow_head=False),
            web.get(DESCRIPTION, server.describe, allow_head=False),
            *(options.front.routes(server) if options.front else ()),
        ]
    )
    app.on_cleanup.extend((threads.on_cleanup, source.on_cleanup))
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


class _Server:
    """Answers requests that the guard has let in; implements controller.api.front.Backing."""

    def __init__(
        self,
        home: Home,
        source: Source,
        threads: Threads,
        guard: Guard,
        version: str,
        options: ApiOptions,
    ) -> None:
        self._home = home
        self._source = source
        self._threads = threads
        self._guard = guard
        self._options = options
        self._watchers = Watchers(options.streams, options.streams_of_user)
        self._description = described(version)

    # --- controller.api.front.Backing ----------------------------------------------------------

    async def caller(self, request: web.Request, authorization: str) -> Caller:
        """See Backing."""
        return await self._guard.caller(request, authorization)

    async def read(self, work: Callable[[Reading], Value]) -> Value:
        """See Backing."""
        found: Value = await self._threads.read(lambda: work(self._farm()))
        return found

    async def ask(self, work: Callable[[Reading], Value]) -> Value:
        """See Backing."""
        found: Value = await self._threads.ask(lambda: work(self._farm()))
        return found

    async def write(self, work: Callable[[Reading], Value]) -> Value:
        """See Backing."""
        found: Value = await self._threads.write(lambda: work(self._farm()))
        return found

    def _farm(self) -> Reading:
        return Reading(self._source.store(), self._home)

    # --- routes --------------------------------------------------------------------------------

    def reading(self, route: ReadRoute[Any]) -> Handler:
        """Return the handler of a GET route."""
        in_turn = self._threads.ask if route.asks_controller else self._threads.read

        async def handle(request: web.Request) -> web.StreamResponse:
            asked = parse(route.query, list(request.query.items()))
            body = await in_turn(self._read, route, asked, dict(request.match_info))
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
            made = await self._threads.write(self._write, route, caller, body, ids)
            return web.Response(body=in_pieces(made), content_type="application/json", headers=SAFE)

        return handle

    def exporting(self, route: ExportRoute[Any]) -> Handler:
        """Return the handler of a route that returns all items at once."""

        async def handle(request: web.Request) -> web.StreamResponse:
            asked = parse(route.query, list(request.query.items()))
            export = await self._threads.read(self._export, route, asked)
            return await send_export(request, export, self._threads.read, self._options.send_s)

        return handle

    async def watch(self, request: web.Request) -> web.StreamResponse:
        """Answer with a sweep's events until the caller leaves or has no valid token any more."""
        parse(NoQuery, list(request.query.items()))
        sweep_id = request.match_info["sweep_id"]
        await self._threads.read(lambda: record_of(self._source.store(), sweep_id))
        said = request.headers.get("Authorization", "")

        async def require_valid() -> None:
            await self._threads.read(self._guard.holder, said)

        given = request, self._home, sweep_id, require_valid, self._options.send_s
        with self._watchers.watching(request[CALLER].name):
            return await while_there(request, send_events(*given))

    async def content(self, request: web.Request) -> web.StreamResponse:
        """Answer with the content of an artefact, or with a range of it; its ETag is its SHA-256.

        It comes from anywhere, so a browser is told to keep it as a file.
        """
        parse(NoQuery, list(request.query.items()))
        sha256 = request.match_info["sha256"]
        size = await self._threads.read(self._size_of, sha256)
        headers = {**SAFE, "ETag": f'"{sha256}"', "Accept-Ranges": "bytes"}
        if is_known(request.headers.getall("If-None-Match", []), headers["ETag"]):
            return web.Response(status=304, headers=headers)
        try:
            span = span_of(asked_range(request, headers["ETag"]), size)
        except RangeBeyond as error:
            return refusal(problem_of(error), {"Content-Range": f"bytes */{size}"})
        if span:
            headers["Content-Range"] = f"bytes {span.first}-{span.end - 1}/{size}"
        whole = span or Span(0, size)
        store = self._source.store
        pieces = await self._threads.read(lambda: store().artefact(sha256, whole.first))
        response = web.StreamResponse(
            status=206 if span else 200, headers={**headers, "Content-Disposition": "attachment"}
        )
        response.content_type = BINARY
        response.content_length = whole.size
        sent = cut(pieces, whole.size)
        return await send_pieces(request, response, sent, self._threads.read, self._options.send_s)

    def _size_of(self, sha256: str) -> int:
        size = self._source.store().artefact_size(sha256)
        if size is None:
            raise unknown("artefact", sha256, "GET /api/v1/runs/{run_id}/artefacts lists a run's.")
        return size

    async def describe(self, request: web.Request) -> web.StreamResponse:
        """Answer with the description."""
        parse(NoQuery, list(request.query.items()))
        return tagged(request, self._description)

    def _read(self, route: ReadRoute[Any], asked: NoQuery, ids: Ids) -> bytes:
        found = route.work(self._farm(), asked, ids)
        return _json(found)

    def _export(self, route: ExportRoute[Any], asked: NoQuery) -> Export:
        return route.work(self._farm(), asked)

    def _write(
        self, route: WriteRoute[Any], caller: Caller, body: Contract | None, ids: Ids
    ) -> bytes:
        farm = self._farm()
        return _json(route.work(farm, caller, body, ids))


def _json(found: Contract) -> bytes:
    return found.model_dump_json(by_alias=True).encode()
