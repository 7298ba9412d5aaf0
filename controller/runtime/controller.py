"""The controller as Ray runs it: one named, detached, async actor around the Farm.

Ray restarts it when it dies; it then finds its state in the store, and agents ask again.
"""

from __future__ import annotations

import asyncio
import os
import time
from pathlib import Path

from controller.contracts.catalog import load_catalog
from controller.contracts.device import Registration
from controller.contracts.version import installed_version
from controller.contracts.wire import Exchange, Orders, Report, RunProgress
from controller.runtime.api import serve_api
from controller.runtime.farm import Farm, FarmSettings
from controller.runtime.feed import Feed
from controller.runtime.home import Endpoint, Home, write_private
from controller.store.sqlite import SqliteStore


class Controller:
    """Its methods are the controller's interface to agents; users come over HTTP (see api)."""

    def __init__(self, home: str) -> None:
        self._home = Home(Path(home))
        self._settings = FarmSettings()
        self._feed = Feed()
        self._farm = Farm(
            SqliteStore.open(self._home.store),
            load_catalog(),
            installed_version(),
            self._settings,
            time.time,
            self._feed.publish,
        )
        loop = asyncio.get_running_loop()
        self._url = loop.create_task(self._listen())
        self._timer = loop.create_task(self._keep_time())
        self._timer.add_done_callback(_die_with)

    async def ready(self) -> str:
        """Return the URL of the HTTP interface once it listens."""
        return await self._url

    async def register(self, registration: Registration) -> None:
        """See Farm.register."""
        self._farm.register(registration)

    async def exchange(self, question: Exchange) -> Orders:
        """Answer at once if there is something to do, else when there is, or after a while."""
        loop = asyncio.get_running_loop()
        give_up = loop.time() + self._settings.exchange_hold_s
        while True:
            orders = self._farm.exchange(question)
            if orders.run or orders.stop or loop.time() >= give_up:
                return orders
            await self._feed.change(give_up - loop.time())

    async def report(self, report: Report) -> None:
        """See Farm.report."""
        self._farm.report(report)

    async def progress(self, progress: RunProgress) -> None:
        """See Farm.progress."""
        self._farm.progress(progress)

    async def _listen(self) -> str:
        token = self._home.api_token.read_text()
        url = await serve_api(self._farm, self._feed, token)
        endpoint = Endpoint(url=url, version=installed_version(), pid=os.getpid())
        write_private(self._home.endpoint_file, endpoint.model_dump_json())
        return url

    async def _keep_time(self) -> None:
        while True:
            # Sleeps until something can run out; looks again when a new lease changes that.
            if not await self._feed.change(self._farm.next_tick_in()):
                self._farm.tick()


def _die_with(task: asyncio.Task[None]) -> None:
    # Without its clock no lease would ever expire: better to die and be restarted by Ray.
    if not task.cancelled() and task.exception():
        task.get_loop().call_exception_handler(
            {"message": "the controller's clock stopped", "exception": task.exception()}
        )
        os._exit(1)
