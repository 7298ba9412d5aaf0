"""The controller's HTTP interface for users, on loopback, with a bearer token.

POST /v1/sweeps                  {"sweep": …, "again": bool} → Submission
POST /v1/sweeps/{id}/cancel      → {"cancelled": n}
GET  /v1/sweeps/{id}/events      → RunEvent, one JSON line each, until the caller leaves
GET  /v1/prometheus/targets      → Prometheus's HTTP service discovery; its own token will do
Errors of the user's making come back with status 400 as {"kind", "tried", "seen", "remedy"}.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from aiohttp import web
from aiohttp.typedefs import Handler, Middleware
from pydantic import ValidationError

from controller.contracts.base import Contract
from controller.contracts.complaint import Complaint
from controller.contracts.errors import SweepInvalid, UserError
from controller.contracts.sweep import Sweep
from controller.metrics.discovery import TARGETS_PATH
from controller.metrics.exporter import LOOPBACK, is_bearer
from controller.runtime.farm import Farm
from controller.runtime.feed import Feed


class SubmitRequest(Contract):
    """Body of POST /v1/sweeps."""

    sweep: Sweep
    again: bool = False


class Cancellation(Contract):
    """Answer to POST /v1/sweeps/{id}/cancel."""

    cancelled: int


@dataclass(frozen=True, slots=True)
class ApiOptions:
    """Where the interface listens, and what it asks for."""

    token: str
    metrics_token: str
    """Opens what Prometheus asks, and nothing else."""
    port: int
    """0 for a free one; another is taken if it is free."""


async def serve_api(
    farm: Farm, feed: Feed, targets: Callable[[], list[dict[str, Any]]], options: ApiOptions
) -> web.AppRunner:
    """Listen on loopback until the runner is cleaned up or the event loop ends."""
    app = web.Application(middlewares=[_guard(options)])
    routes = _Routes(farm, feed, targets)
    app.add_routes(
        [
            web.post("/v1/sweeps", routes.submit),
            web.post("/v1/sweeps/{sweep_id}/cancel", routes.cancel),
            web.get("/v1/sweeps/{sweep_id}/events", routes.events),
            web.get(TARGETS_PATH, routes.prometheus_targets),
        ]
    )
    runner = web.AppRunner(app, access_log=None)
    await runner.setup()
    try:
        await web.TCPSite(runner, LOOPBACK, options.port).start()
    except OSError:
        await web.TCPSite(runner, LOOPBACK, 0).start()
    return runner


def url_of(runner: web.AppRunner) -> str:
    """Return where a runner listens."""
    host, port = runner.addresses[0][:2]
    return f"http://{host}:{port}"


class _Routes:
    def __init__(self, farm: Farm, feed: Feed, targets: Callable[[], list[dict[str, Any]]]) -> None:
        self._farm = farm
        self._feed = feed
        self._targets = targets

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

    async def prometheus_targets(self, _: web.Request) -> web.StreamResponse:
        return web.json_response(self._targets())


def _json(model: Contract, status: int = 200) -> web.Response:
    return web.Response(
        text=model.model_dump_json(), status=status, content_type="application/json"
    )


def _guard(options: ApiOptions) -> Middleware:
    @web.middleware
    async def guard(request: web.Request, handler: Handler) -> web.StreamResponse:
        for_metrics = request.path == TARGETS_PATH and is_bearer(request, options.metrics_token)
        if not (for_metrics or is_bearer(request, options.token)):
            raise web.HTTPUnauthorized(text="this needs the token of this farm's api-token file")
        try:
            return await handler(request)
        except UserError as error:
            return _json(Complaint.of(error), status=400)

    return guard
