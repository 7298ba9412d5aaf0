"""The controller's HTTP interface for users, on loopback, with a bearer token.

POST /v1/sweeps                  {"sweep": …, "again": bool} → Submission
POST /v1/sweeps/{id}/cancel      → {"cancelled": n}
GET  /v1/sweeps/{id}/events      → RunEvent, one JSON line each, until the caller leaves
Errors of the user's making come back with status 400 as {"kind", "tried", "seen", "remedy"}.
"""

from __future__ import annotations

import hmac
from dataclasses import asdict

from aiohttp import web
from aiohttp.typedefs import Handler, Middleware
from pydantic import ValidationError

from controller.contracts.base import Contract
from controller.contracts.errors import SweepInvalid, UserError
from controller.contracts.sweep import Sweep
from controller.runtime.farm import Farm
from controller.runtime.feed import Feed


class SubmitRequest(Contract):
    """Body of POST /v1/sweeps."""

    sweep: Sweep
    again: bool = False


class Cancellation(Contract):
    """Answer to POST /v1/sweeps/{id}/cancel."""

    cancelled: int


async def serve_api(farm: Farm, feed: Feed, token: str) -> str:
    """Listen on a free loopback port for as long as the event loop lives; return the URL."""
    app = web.Application(middlewares=[_guard(token)])
    routes = _Routes(farm, feed)
    app.add_routes(
        [
            web.post("/v1/sweeps", routes.submit),
            web.post("/v1/sweeps/{sweep_id}/cancel", routes.cancel),
            web.get("/v1/sweeps/{sweep_id}/events", routes.events),
        ]
    )
    runner = web.AppRunner(app, access_log=None)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    host, port = runner.addresses[0][:2]
    return f"http://{host}:{port}"


class _Routes:
    def __init__(self, farm: Farm, feed: Feed) -> None:
        self._farm = farm
        self._feed = feed

    async def submit(self, request: web.Request) -> web.StreamResponse:
        try:
            body = SubmitRequest.model_validate_json(await request.read())
        except ValidationError as error:
            first = error.errors()[0]
            place = ".".join(map(str, first["loc"]))
            raise SweepInvalid(
                f"submitted sweep, key {place}",
                first["msg"],
                "check it with: benchfarm sweep validate",
            ) from error
        return _json(self._farm.submit(body.sweep, again=body.again))

    async def cancel(self, request: web.Request) -> web.StreamResponse:
        return _json(Cancellation(cancelled=self._farm.cancel(request.match_info["sweep_id"])))

    async def events(self, request: web.Request) -> web.StreamResponse:
        self._farm.require(request.match_info["sweep_id"])
        response = web.StreamResponse(headers={"Content-Type": "application/x-ndjson"})
        async with self._feed.watch(request.match_info["sweep_id"]) as queue:
            await response.prepare(request)
            while True:
                event = await queue.get()
                await response.write(event.model_dump_json().encode() + b"\n")


def _json(model: Contract, status: int = 200) -> web.Response:
    return web.Response(
        text=model.model_dump_json(), status=status, content_type="application/json"
    )


def _guard(token: str) -> Middleware:
    expected = f"Bearer {token}".encode()

    @web.middleware
    async def guard(request: web.Request, handler: Handler) -> web.StreamResponse:
        given = request.headers.get("Authorization", "").encode(errors="surrogateescape")
        if not hmac.compare_digest(given, expected):
            raise web.HTTPUnauthorized(text="this needs the token of this farm's api-token file")
        try:
            return await handler(request)
        except UserError as error:
            return web.json_response({"kind": type(error).__name__, **asdict(error)}, status=400)

    return guard
