"""The controller's HTTP interface, on loopback, with a bearer token.

For users, each with a token of their own (see access), which has to be more than a viewer's for
all but GET; the administrator's token allows all:
POST /v1/sweeps                  SubmitRequest → Submission
GET  /v1/sweeps/{id}             → SweepStatus
POST /v1/sweeps/{id}/cancel      → Count
POST /v1/sweeps/{id}/resume      → Count
POST /v1/sweeps/{id}/tags        TagRequest → SweepAnnotations
POST /v1/sweeps/{id}/notes       NoteRequest → SweepAnnotations
POST /v1/sweeps/{id}/notes/remove  NoteRemoval → SweepAnnotations
GET  /v1/sweeps/{id}/events      → RunEvent, one JSON line each, until the caller leaves; an empty
                                   line if nothing has happened for some seconds
A sweep's id may be its name or the beginning of its id, as `references` reads it.
Routes of the administrator: see administration.
GET  /v1/prometheus/targets      → Prometheus's HTTP service discovery; also with the metrics token
User errors are answered with status 400 (401, 403, 429; 507 if the store fails) as
{"kind", "tried", "seen", "remedy"}.
"""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any, Final

from aiohttp import web
from aiohttp.typedefs import Handler, Middleware

from controller.contracts.administration import ADMINISTRATION, Count, SubmitRequest
from controller.contracts.annotations import NoteRemoval, NoteRequest, TagRequest
from controller.contracts.error_payload import ErrorPayload
from controller.contracts.errors import (
    FarmUnavailable,
    NotAllowed,
    OverQuota,
    StoreDamaged,
    StoreUnavailable,
    SweepInvalid,
    UserError,
)
from controller.metrics.discovery import TARGETS_PATH
from controller.metrics.exporter import LOOPBACK, is_bearer
from controller.metrics.web_server import (
    HEAD_TIMEOUT_S,
    TooManyRequests,
    WebServer,
    answered,
    listen,
    serve,
    turned_away,
)
from controller.runtime.access import Access, require_admin, require_submitter
from controller.runtime.administration import administration_routes
from controller.runtime.desk import Desk
from controller.runtime.farm import Farm
from controller.runtime.feed import Feed
from controller.runtime.http_json import (
    BODY_TIMEOUT,
    BODY_TIMEOUT_S,
    MAX_BODY_BYTES,
    answer,
    read_body,
)
from controller.scheduling.limits import MAX_SWEEP_BYTES

log = logging.getLogger(__name__)
MAX_STREAMS: Final = 32
"""Sweeps that one user may watch at once."""
MAX_SUBMISSION_BYTES: Final = 2 * MAX_SWEEP_BYTES
"""Largest body of a submission; the limit of a sweep itself is on its shortest form."""
BEAT_S: Final = 15.0
"""Seconds after which a watcher is sent an empty line, so that it may ask what runs wait for."""
SWEEP: Final = "/v1/sweeps/{sweep_id}"
"""Route of one sweep."""
CALLER: Final = web.RequestKey("caller", str)
"""Key of a request: the name of the user whose token it carries."""


@dataclass(frozen=True, slots=True)
class ApiOptions:
    """Port, tokens and limits of the interface."""

    access: Access
    metrics_token: str
    """Allows Prometheus's service discovery and nothing else."""
    port: int
    """0 for any free port; a free one is taken, too, if this one is in use."""
    max_streams: int = MAX_STREAMS
    beat_s: float = BEAT_S
    head_timeout_s: float = HEAD_TIMEOUT_S
    body_timeout_s: float = BODY_TIMEOUT_S


async def serve_api(
    farm: Farm, feed: Feed, targets: Callable[[], list[dict[str, Any]]], options: ApiOptions
) -> WebServer:
    """Serve on loopback until the server is cleaned up or the event loop ends."""
    app = web.Application(middlewares=[_guard(options)], client_max_size=MAX_BODY_BYTES)
    app[BODY_TIMEOUT] = options.body_timeout_s
    routes = _Routes(farm, feed, targets, options)
    app.add_routes(
        [
            web.post("/v1/sweeps", routes.submit),
            web.get(SWEEP, routes.sweep_status),
            web.post(f"{SWEEP}/cancel", routes.cancel),
            web.post(f"{SWEEP}/resume", routes.resume),
            web.get(f"{SWEEP}/events", routes.events),
            web.post(f"{SWEEP}/{TagRequest.PATH}", routes.tag),
            web.post(f"{SWEEP}/{NoteRequest.PATH}", routes.add_note),
            web.post(f"{SWEEP}/{NoteRemoval.PATH}", routes.remove_note),
            web.get(TARGETS_PATH, routes.prometheus_targets),
            *administration_routes(farm, options.access),
        ]
    )
    # A watcher who leaves is not waited for until the next event; all else is done at once anyway.
    try:
        listener = listen(LOOPBACK, options.port)
    except OSError:
        listener = listen(LOOPBACK)
    return await serve(app, listener, options.head_timeout_s, handler_cancellation=True)


def url_of(server: WebServer) -> str:
    """Return a server's URL."""
    host, port = server.address
    return f"http://{host}:{port}"


class _Routes:
    def __init__(
        self,
        farm: Farm,
        feed: Feed,
        targets: Callable[[], list[dict[str, Any]]],
        options: ApiOptions,
    ) -> None:
        self._farm = farm
        self._desk = Desk(farm.sweeps)
        self._streams: Counter[str] = Counter()
        self._feed = feed
        self._targets = targets
        self._access = options.access
        self._max_streams = options.max_streams
        self._beat_s = options.beat_s

    async def submit(self, request: web.Request) -> web.StreamResponse:
        tried = "submit the sweep"
        if (request.content_length or 0) > MAX_SUBMISSION_BYTES:
            seen = f"it has more than {MAX_SUBMISSION_BYTES} bytes"
            raise SweepInvalid(tried, seen, "Split it into several sweeps.")
        body = await read_body(SubmitRequest, request, tried, SweepInvalid)
        return answer(await self._desk.submit(body.sweep, request[CALLER], again=body.again))

    async def sweep_status(self, request: web.Request) -> web.StreamResponse:
        return answer(await self._desk.sweep_status(self._sweep_id(request), request[CALLER]))

    async def cancel(self, request: web.Request) -> web.StreamResponse:
        return answer(Count(runs=await self._desk.cancel(self._sweep_id(request), request[CALLER])))

    async def resume(self, request: web.Request) -> web.StreamResponse:
        return answer(Count(runs=await self._desk.resume(self._sweep_id(request), request[CALLER])))

    async def tag(self, request: web.Request) -> web.StreamResponse:
        sweep_id = self._sweep_id(request)
        body = await read_body(TagRequest, request, f"tag sweep {sweep_id}")
        return answer(await self._desk.tag(sweep_id, request[CALLER], body))

    async def add_note(self, request: web.Request) -> web.StreamResponse:
        sweep_id = self._sweep_id(request)
        body = await read_body(NoteRequest, request, f"note this on sweep {sweep_id}")
        return answer(await self._desk.add_note(sweep_id, request[CALLER], body.text))

    async def remove_note(self, request: web.Request) -> web.StreamResponse:
        sweep_id = self._sweep_id(request)
        body = await read_body(NoteRemoval, request, f"remove a note of sweep {sweep_id}")
        return answer(await self._desk.remove_note(sweep_id, request[CALLER], body.number))

    async def events(self, request: web.Request) -> web.StreamResponse:
        sweep_id = self._sweep_id(request)
        self._farm.sweeps.require(sweep_id, request[CALLER])
        authorization = request.headers.get("Authorization", "")
        response = web.StreamResponse(headers={"Content-Type": "application/x-ndjson"})
        async with self._listening(request[CALLER]), self._feed.watch(sweep_id) as events:
            await response.prepare(request)
            while not events.behind:
                batch = await events.batch(self._beat_s)
                if self._access.caller(authorization) != request[CALLER]:
                    return response  # revoked meanwhile
                lines = b"".join(event.model_dump_json().encode() + b"\n" for event in batch)
                await response.write(lines or b"\n")
        return response  # the caller starts again from the store

    @asynccontextmanager
    async def _listening(self, user: str) -> AsyncGenerator[None]:
        """Count the streams of a user; raises OverQuota."""
        if self._streams[user] >= self._max_streams:
            raise OverQuota(
                "watch the sweep",
                f"{user} watches {self._max_streams} already",
                "End a `benchfarm sweep watch` or a `benchfarm sweep submit --wait` first.",
            )
        self._streams[user] += 1
        try:
            yield
        finally:
            self._streams[user] -= 1

    def _sweep_id(self, request: web.Request) -> str:
        return self._farm.sweeps.find(request.match_info["sweep_id"], request[CALLER])

    async def prometheus_targets(self, _: web.Request) -> web.StreamResponse:
        return web.json_response(self._targets())


def _guard(options: ApiOptions) -> Middleware:
    @web.middleware
    async def guard(request: web.Request, handler: Handler) -> web.StreamResponse:
        try:
            if _for_metrics(request, options.metrics_token):
                return await answered(request, "Prometheus", handler)
            request[CALLER] = _admitted(request, options.access)
            return await answered(request, request[CALLER], handler)
        except Unauthenticated as error:
            return await turned_away(request, _refusal(error, 401))
        except TooManyRequests as error:
            return _refusal(error, 429)
        except NotAllowed as error:
            return _refusal(error, 403)
        except UserError as error:
            return _refusal(error, 400)
        except StoreUnavailable as error:
            log.error("%s %s is refused: %s", request.method, request.path[:100], error)
            return _refusal(_store_failed(request.method, error), 507)

    return guard


class Unauthenticated(UserError):
    """A request without a valid token."""


def _store_failed(method: str, error: StoreUnavailable) -> FarmUnavailable:
    """Return what the caller is told of a store that could not be read or written."""
    if method in ("GET", "HEAD"):
        tried, lost = "read the head's store", ""
    else:
        tried, lost = "store it on the head", "; nothing was stored"
    damaged = isinstance(error, StoreDamaged)
    remedy = (
        "On the head, run `benchfarm store check`."
        if damaged
        else "Make room on the head's disk (`benchfarm status` there), then repeat the command."
    )
    return FarmUnavailable(tried, f"{error.reason}{lost}", remedy)


def _for_metrics(request: web.Request, token: str) -> bool:
    return request.path == TARGETS_PATH and is_bearer(request, token)


def _admitted(request: web.Request, access: Access) -> str:
    """Return the caller of a request; raises Unauthenticated, NotAllowed."""
    tried = f"answer {request.method} {request.path[:100]}"
    caller = access.caller(request.headers.get("Authorization", ""))
    if caller is None:
        raise Unauthenticated(
            tried,
            "the request has no valid token",
            "Set BENCHFARM_TOKEN to your token, or use the farm's own BENCHFARM_HOME.",
        )
    if request.path.startswith(ADMINISTRATION) or request.path == TARGETS_PATH:
        require_admin(caller, tried)
    if request.method != "GET":
        require_submitter(access, caller, tried)
    return caller


def _refusal(error: UserError, status: int) -> web.Response:
    return answer(ErrorPayload.of(error), status)
