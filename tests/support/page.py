"""The page as it is served beside the API, and browsers that have signed in."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from typing import TypeVar

import httpx

from controller.api.options import ApiOptions
from controller.api.server import serve_api
from controller.contracts.records import Scope
from controller.metrics.exporter import LOOPBACK
from controller.page.site import Site
from controller.platform.atomic import write_private
from controller.runtime.access import Access
from controller.runtime.api import ApiOptions as ControllerOptions
from controller.runtime.api import serve_api as serve_controller
from controller.runtime.api import url_of
from controller.runtime.feed import Feed
from controller.runtime.home import Endpoint, Home
from tests.support.api import ADMIN_TOKEN, SECRETS, UNLIMITED, VERSION, Served, served
from tests.support.farm import FarmBox
from tests.support.waiting import PATIENCE_S

Value = TypeVar("Value")


@contextmanager
def page_served(home: Home, site: Site | None = None) -> Iterator[Served]:
    """Serve a home's store with the page, without TLS and without limits of rate."""
    front = site or Site(tls=False)
    options = ApiOptions(LOOPBACK, 0, rate=UNLIMITED, strangers=UNLIMITED, front=front)
    with served(home, options) as api:
        yield api


@contextmanager
def browser(api: Served, scope: Scope | None = Scope.VIEWER) -> Iterator[httpx.Client]:
    """Give a client that keeps cookies, signed in with the token of a scope; None: not."""
    with httpx.Client(base_url=api.url, timeout=PATIENCE_S) as client:
        if scope is not None:
            answer = sign_in(client, SECRETS[scope])
            assert answer.status_code == 303, answer.text
        yield client


def sign_in(client: httpx.Client, token: str, to: str = "/", **headers: str) -> httpx.Response:
    """Send the form of the sign-in page."""
    form = {"token": token, "to": to}
    return client.post("/sign-in", data=form, headers={"Origin": str(client.base_url), **headers})


def form_key_of(page: str) -> str:
    """Return what forms of a page send back."""
    return page.partition('name="form_key" value="')[2].partition('"')[0]


class Farm:
    """A controller without Ray, and the page over its store, in a thread of its own."""

    def __init__(self, home: Home, box: FarmBox, url: str, loop: asyncio.AbstractEventLoop) -> None:
        self.home = home
        self.url = url
        self._box = box
        self._loop = loop

    def do(self, work: Callable[[FarmBox], Value]) -> Value:
        """Do something in the controller's own thread, and return what came of it."""

        async def in_loop() -> Value:
            return work(self._box)

        return asyncio.run_coroutine_threadsafe(in_loop(), self._loop).result(PATIENCE_S)


@contextmanager
def farm_with_page(home: Home) -> Iterator[Farm]:
    """Serve a prepared home's store by a controller and by the page."""
    started: Future[tuple[Farm, asyncio.Event]] = Future()
    with ThreadPoolExecutor(1) as pool:
        running = pool.submit(asyncio.run, _serve(home, started))
        farm, ended = started.result(PATIENCE_S)
        try:
            yield farm
        finally:
            farm.do(lambda _: ended.set())
            running.result(PATIENCE_S)


async def _serve(home: Home, started: Future[tuple[Farm, asyncio.Event]]) -> None:
    box, ended, loop = FarmBox(home.store), asyncio.Event(), asyncio.get_running_loop()
    access = Access(box.store, ADMIN_TOKEN, box.clock)
    options = ControllerOptions(access=access, metrics_token="4567", port=0)
    inner = await serve_controller(box.farm, Feed(), list, options)
    endpoint = Endpoint(url=url_of(inner), version=VERSION, pid=1)
    write_private(home.endpoint_file, endpoint.model_dump_json())
    page = ApiOptions(
        LOOPBACK, 0, rate=UNLIMITED, strangers=UNLIMITED, front=Site(tls=False), end_s=0.5
    )
    outer = await serve_api(home, VERSION, page)
    try:
        url = f"http://{LOOPBACK}:{outer.address[1]}"
        started.set_result((Farm(home, box, url, loop), ended))
        await ended.wait()
    finally:
        await outer.cleanup()
        await inner.cleanup()
        box.close()
