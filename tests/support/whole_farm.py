"""A controller and the API in front of it, both as they are really served, over one store.

Both run in this process. An agent does what runs there are when the test says so, or while somebody
watches a sweep.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncGenerator, Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final, TypeVar

from controller.api.contexts import FarmContext
from controller.client import Farm
from controller.contracts.catalog import load_catalog
from controller.contracts.records import Scope
from controller.contracts.result import Outcome
from controller.platform.atomic import write_private
from controller.runtime.access import Access
from controller.runtime.api import ApiOptions, serve_api, url_of
from controller.runtime.feed import Feed, Watcher
from controller.runtime.home import Endpoint, Home
from tests.support import builders
from tests.support.api import ADMIN_TOKEN, SECRETS, Served, prepared, served
from tests.support.farm import FarmBox
from tests.support.waiting import PATIENCE_S

POLL_S: Final = 0.01
"""After so long, a busy agent asks for orders again."""
BEAT_S: Final = 0.05
"""So often, the API finds out whether a watcher has left."""
Value = TypeVar("Value")


class WatchedFeed(Feed):
    """A feed that tells whether somebody watches a sweep."""

    def __init__(self) -> None:
        super().__init__()
        self.watched = asyncio.Event()

    @asynccontextmanager
    async def watch(self, sweep_id: str) -> AsyncGenerator[Watcher]:
        """See Feed.watch."""
        async with super().watch(sweep_id) as watcher:
            self.watched.set()
            try:
                yield watcher
            finally:
                self.watched.clear()


@dataclass(frozen=True, slots=True)
class Controller:
    """A controller that runs in a thread of its own."""

    box: FarmBox
    feed: WatchedFeed
    loop: asyncio.AbstractEventLoop
    ended: asyncio.Event


@dataclass(frozen=True, slots=True)
class WholeFarm:
    """A farm of one server, with the catalogue of the release."""

    api: Served
    controller: Controller

    def context(self, scope: Scope = Scope.SUBMITTER) -> FarmContext:
        """Return where the farm is, with a token of a scope."""
        return FarmContext(url=self.api.url, token=SECRETS[scope])

    def client(self, scope: Scope = Scope.SUBMITTER) -> Farm:
        """Return the farm as programs have it."""
        return Farm(self.context(scope))

    def in_controller(self, call: Callable[[], Value]) -> Value:
        """Return what a call returns in the controller's thread."""
        done: Future[Value] = Future()

        def work() -> None:
            try:
                done.set_result(call())
            except BaseException as error:  # noqa: BLE001 - raised where it is waited for
                done.set_exception(error)

        self.controller.loop.call_soon_threadsafe(work)
        return done.result(PATIENCE_S)

    def measure(self, outcome: Outcome) -> int:
        """Let the agent do what it is ordered to, with this outcome; return the number of runs."""
        return self.in_controller(lambda: _measure(self.controller.box, outcome))

    @contextmanager
    def busy(self, outcome: Outcome) -> Iterator[None]:
        """Let the agent do all that comes while somebody watches a sweep, with this outcome."""
        controller = self.controller

        async def work() -> None:
            while await controller.feed.watched.wait():
                _measure(controller.box, outcome)
                await asyncio.sleep(POLL_S)

        working = asyncio.run_coroutine_threadsafe(work(), controller.loop)
        try:
            yield
        finally:
            working.cancel()
        if not working.cancelled():
            working.result()  # raises what the agent has met


@contextmanager
def whole_farm(folder: Path) -> Iterator[WholeFarm]:
    """Serve a farm in a folder, with a token of each scope."""
    home = prepared(folder, sweeps=0)
    started: Future[Controller] = Future()
    with ThreadPoolExecutor(1) as pool:
        running = pool.submit(asyncio.run, _control(home, started))
        controller = started.result(PATIENCE_S)
        try:
            with served(home) as api:
                yield WholeFarm(api, controller)
        finally:
            controller.loop.call_soon_threadsafe(controller.ended.set)
            running.result(PATIENCE_S)


async def _control(home: Home, started: Future[Controller]) -> None:
    ended, feed, box = asyncio.Event(), WatchedFeed(), FarmBox(home.store)
    try:
        box.on_event, box.catalog = feed.publish, load_catalog()
        box.restart()
        box.farm.register(builders.registration())
        access = Access(box.store, ADMIN_TOKEN, box.clock)
        options = ApiOptions(access=access, metrics_token="4567", port=0, beat_s=BEAT_S)
        server = await serve_api(box.farm, feed, list, options)
        endpoint = Endpoint(url=url_of(server), version=builders.VERSION, pid=os.getpid())
        write_private(home.endpoint_file, endpoint.model_dump_json())
        try:
            started.set_result(Controller(box, feed, asyncio.get_running_loop(), ended))
            await ended.wait()
        finally:
            home.endpoint_file.unlink()
            await server.cleanup()
    except BaseException as error:
        if not started.done():
            started.set_exception(error)
        raise
    finally:
        box.close()


def _measure(box: FarmBox, outcome: Outcome) -> int:
    orders = box.ask()
    for job in orders.run:
        box.report(job.ref, outcome)
    return len(orders.run)
