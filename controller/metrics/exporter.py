"""Serving metrics over HTTP: a bearer token always, OpenMetrics where the scraper takes it.

Costs nothing while nobody scrapes. What is exported is collected on the event loop, at once, and
turned into text in a thread, so that a large scrape never keeps the loop from its work.
"""

from __future__ import annotations

import asyncio
import hmac
import ipaddress
import socket
from collections.abc import Callable, Iterable
from dataclasses import dataclass

from aiohttp import web
from prometheus_client import CollectorRegistry
from prometheus_client.exposition import choose_encoder
from prometheus_client.registry import Collector

from controller.contracts.errors import UserError
from controller.metrics.families import Gauge, gauge_text

LOOPBACK = "127.0.0.1"
METRICS_PATH = "/metrics"


@dataclass(frozen=True, slots=True)
class Exposition:
    """What one scrape shows; nothing in it changes any more."""

    gauges: Iterable[Gauge]
    counted: CollectorRegistry
    """Counters and histograms."""


def listening(address: str) -> socket.socket:
    """Return a socket that listens on a free port of an IP address of this host.

    Raises UserError.
    """
    try:
        family = socket.AF_INET6 if ipaddress.ip_address(address).version == 6 else socket.AF_INET
        if ipaddress.ip_address(address).is_unspecified:
            raise ValueError("Prometheus could not connect to it")
        return socket.create_server((address, 0), family=family)
    except (OSError, ValueError) as error:
        raise UserError(
            f"option --metrics-address {address}",
            getattr(error, "strerror", None) or str(error),
            "give an IP address of this host, such as the one the cluster knows it by",
        ) from error


def address_of(listener: socket.socket) -> str:
    """Return HOST:PORT of a listening socket."""
    host, port = listener.getsockname()[:2]
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


async def serve_metrics(
    listener: socket.socket, token: str, expose: Callable[[], Exposition]
) -> web.AppRunner:
    """Serve until the runner is cleaned up or the event loop ends.

    expose: called at each scrape, on the event loop; what it returns is read in a thread.
    """
    app = web.Application()
    app.add_routes([web.get(METRICS_PATH, _Scrape(expose, token).answer)])
    runner = web.AppRunner(app, access_log=None)
    await runner.setup()
    await web.SockSite(runner, listener).start()
    return runner


def is_bearer(request: web.Request, token: str) -> bool:
    """Return whether a request carries a token, compared in constant time."""
    given = request.headers.get("Authorization", "").encode(errors="surrogateescape")
    return hmac.compare_digest(given, f"Bearer {token}".encode())


@dataclass(frozen=True, slots=True)
class _Scrape:
    expose: Callable[[], Exposition]
    token: str

    async def answer(self, request: web.Request) -> web.StreamResponse:
        if not is_bearer(request, self.token):
            raise web.HTTPUnauthorized(text="this needs the token of the farm's metrics-token file")
        encode, content_type = choose_encoder(request.headers.get("Accept", ""))
        body = await asyncio.to_thread(_render, self.expose(), encode)
        return web.Response(body=body, headers={"Content-Type": content_type})


def _render(exposition: Exposition, encode: Callable[[Collector], bytes]) -> bytes:
    return gauge_text(exposition.gauges).encode() + encode(exposition.counted)
