"""An HTTP server for metrics: always with a bearer token, OpenMetrics if the scraper accepts it.

It costs nothing between scrapes. At a scrape, data is collected on the event loop in one go and
formatted in a thread, so that a large scrape doesn't block the loop.
"""

from __future__ import annotations

import asyncio
import hmac
import ipaddress
import socket
from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass

from aiohttp import web
from aiohttp.typedefs import Handler, Middleware
from prometheus_client import CollectorRegistry
from prometheus_client.exposition import choose_encoder
from prometheus_client.registry import Collector

from controller.contracts.errors import UserError
from controller.metrics.families import Gauge, gauge_text
from controller.metrics.web_server import (
    HEAD_TIMEOUT_S,
    TooManyRequests,
    WebServer,
    answered,
    listen,
    serve,
    turned_away,
)

LOOPBACK = "127.0.0.1"
METRICS_PATH = "/metrics"


@dataclass(frozen=True, slots=True)
class Exposition:
    """The data of one scrape; immutable."""

    gauges: Iterable[Gauge]
    counted: CollectorRegistry
    """Counters and histograms."""


def listening(address: str, port: int = 0) -> socket.socket:
    """Return a socket that listens on an IP address of this host.

    port: used if it is free; otherwise, and for 0, another free port. Raises UserError.
    """
    with suppress(UserError):
        if port:
            return _listening(address, port)
    return _listening(address, 0)


def _listening(address: str, port: int) -> socket.socket:
    tried = f"use --metrics-address {address}"
    remedy = "Give an IP address of this host, such as the one the cluster knows it by."
    try:
        meant = ipaddress.ip_address(address)
    except ValueError as error:
        raise UserError(tried, "it is no IP address", remedy) from error
    if meant.is_unspecified:
        raise UserError(tried, "Prometheus could not connect to it", remedy)
    try:
        return listen(address, port, socket.AF_INET6 if meant.version == 6 else socket.AF_INET)
    except OSError as error:
        raise UserError(tried, error.strerror or str(error), remedy) from error


def address_of(listener: socket.socket) -> str:
    """Return HOST:PORT of a listening socket."""
    host, port = listener.getsockname()[:2]
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


async def serve_metrics(
    listener: socket.socket,
    token: str,
    expose: Callable[[], Exposition],
    head_timeout_s: float = HEAD_TIMEOUT_S,
) -> WebServer:
    """Serve until the server is cleaned up or the event loop ends.

    expose: called on the event loop at each scrape; its result is formatted in a thread.
    """
    app = web.Application(middlewares=[_guard(token)])
    app.add_routes([web.get(METRICS_PATH, _Scrape(expose).answer)])
    return await serve(app, listener, head_timeout_s)


def is_bearer(request: web.Request, token: str) -> bool:
    """Return whether a request carries a token, compared in constant time."""
    given = request.headers.get("Authorization", "").encode(errors="surrogateescape")
    return hmac.compare_digest(given, f"Bearer {token}".encode())


def _guard(token: str) -> Middleware:
    @web.middleware
    async def guard(request: web.Request, handler: Handler) -> web.StreamResponse:
        if not is_bearer(request, token):
            need = "this needs the token of the farm's metrics-token file"
            return await turned_away(request, web.Response(status=401, text=need))
        try:
            return await answered(request, "Prometheus", handler)
        except TooManyRequests as error:
            return web.Response(status=429, text=str(error))

    return guard


@dataclass(frozen=True, slots=True)
class _Scrape:
    expose: Callable[[], Exposition]

    async def answer(self, request: web.Request) -> web.StreamResponse:
        encode, content_type = choose_encoder(request.headers.get("Accept", ""))
        body = await asyncio.to_thread(_render, self.expose(), encode)
        return web.Response(body=body, headers={"Content-Type": content_type})


def _render(exposition: Exposition, encode: Callable[[Collector], bytes]) -> bytes:
    return gauge_text(exposition.gauges).encode() + encode(exposition.counted)
