"""The controller as Ray runs it: one named, detached, async actor around the Farm.

Ray restarts it when it dies; it then finds its state in the store, and agents ask again.
"""

from __future__ import annotations

import asyncio
import logging
import os
import socket
import time
from functools import partial
from pathlib import Path
from typing import Any, Final
from urllib.parse import urlsplit

from controller.contracts.artefacts import ArtefactFile, ArtefactPart, ArtefactReceipt
from controller.contracts.catalog import load_catalog, manifests_digest
from controller.contracts.device import Admission, Registration
from controller.contracts.errors import StoreUnavailable
from controller.contracts.version import installed_version
from controller.contracts.wire import Exchange, Orders, Report, RunProgress
from controller.metrics.discovery import targets
from controller.metrics.exporter import Exposition, address_of, listening, serve_metrics
from controller.metrics.farm_metrics import FarmMetrics
from controller.platform.atomic import write_private
from controller.platform.restarting import RESTART_PAUSE_S, end_for_restart, retried
from controller.platform.terminal import make_visible
from controller.runtime.access import Access
from controller.runtime.api import ApiOptions, serve_api, url_of
from controller.runtime.artefact_desk import ArtefactDesk, pinned_sweeps
from controller.runtime.clock import Clock
from controller.runtime.farm import Farm, FarmSettings
from controller.runtime.feed import Feed
from controller.runtime.home import Endpoint, Home
from controller.runtime.options import ControllerOptions
from controller.scheduling.policy import QuarantinePolicy
from controller.store.artefacts.folder import FolderArtefacts
from controller.store.sqlite import SqliteStore

log = logging.getLogger(__name__)
QUIET_S: Final = 0.5
"""How often a paused upload of an artefact looks whether it may go on."""
STORE_PAUSE_S: Final = 3.0
"""Pause before a store that could not be written is tried again."""


class Controller:
    """The actor; its methods are the interface for agents, users come over HTTP (see api)."""

    def __init__(
        self, options: ControllerOptions, restart_pause_s: float = RESTART_PAUSE_S
    ) -> None:
        make_visible()
        self._home = Home(Path(options.home))
        self._options = options
        restarted = self._home.endpoint_file.exists()
        with retried("the controller", restarted=restarted, pause_s=restart_pause_s):
            self._begin()
        if restarted:  # at the first start `up` waits for it, and reports errors
            self._url.add_done_callback(_die_with)

    def _begin(self) -> None:
        options = self._options
        quarantine = QuarantinePolicy(after=options.quarantine_after)
        self._settings = FarmSettings(quarantine=quarantine, quota=options.quota)
        self._feed = Feed()
        load_catalog()  # refuses what can't be read, by name
        self._manifests = manifests_digest()  # before they are read: a later change is noticed
        store, catalog = SqliteStore.open(self._home.store), load_catalog()
        for one in catalog.left_out:
            log.warning("%s. %s", one.said, one.remedy)
        self._access = Access(store, self._home.read_token(self._home.api_token), time.time)
        self._metrics = FarmMetrics(
            catalog, store.newest_results(catalog), store.newest_capabilities()
        )
        clock = Clock()
        self._farm = Farm(
            store,
            catalog,
            installed_version(),
            self._settings,
            clock,
            self._feed.publish,
            self._metrics.observe,
        )
        self._artefacts = ArtefactDesk(
            self._farm,
            FolderArtefacts(self._home.artefacts, pause=self._await_quiet),
            partial(pinned_sweeps, store),
            options.retention,
            os.uname().nodename,
            clock,
        )
        loop = asyncio.get_running_loop()
        self._loop = loop
        self._url = loop.create_task(self._listen())
        self._timer = loop.create_task(keep_time(self._farm, self._feed))
        self._timer.add_done_callback(_die_with)
        self._keeping = loop.create_task(self._artefacts.keep_to_retention())

    def _await_quiet(self) -> None:
        """Block the thread of artefacts while a run measures on this host."""

        async def measures() -> bool:
            return self._farm.measures_on(os.uname().nodename)

        while asyncio.run_coroutine_threadsafe(measures(), self._loop).result():
            time.sleep(QUIET_S)

    async def ready(self) -> str:
        """Return the URL of the HTTP interface once it listens."""
        return await self._url

    async def register(self, registration: Registration) -> Admission:
        """See Farm.register."""
        return self._farm.register(registration)

    async def exchange(self, question: Exchange) -> Orders:
        """Answer as soon as there is something to do, at the latest after exchange_hold_s."""
        loop = asyncio.get_running_loop()
        give_up = loop.time() + self._settings.exchange_hold_s
        while True:
            orders = self._farm.exchange(question)
            if orders != Orders() or loop.time() >= give_up:
                return orders
            await self._feed.change(give_up - loop.time())

    async def report(self, report: Report) -> None:
        """See Farm.report."""
        self._farm.report(report)

    async def progress(self, progress: RunProgress) -> None:
        """See Farm.progress."""
        self._farm.progress(progress)

    async def offer_artefact(self, file: ArtefactFile) -> ArtefactReceipt:
        """See ArtefactDesk.offer."""
        return await self._artefacts.offer(file)

    async def add_artefact(self, part: ArtefactPart, *frames: bytes) -> ArtefactReceipt:
        """See ArtefactDesk.add; each frame is an argument, so that Ray sends it with the call."""
        return await self._artefacts.add(part, frames)

    async def _listen(self) -> str:
        metrics_token = self._home.read_token(self._home.metrics_token)
        former = self._former()
        metrics_port = former.metrics_port if former else self._options.metrics_port
        exporter = listening(self._options.metrics_address, metrics_port)
        await serve_metrics(exporter, metrics_token, self._expose)
        api = ApiOptions(
            access=self._access,
            metrics_token=metrics_token,
            port=self._options.api_port or (urlsplit(former.url).port or 0 if former else 0),
        )
        targets_now = partial(self._targets, exporter)
        url = url_of(await serve_api(self._farm, self._feed, targets_now, api))
        endpoint = Endpoint(
            url=url,
            version=installed_version(),
            pid=os.getpid(),
            metrics_port=exporter.getsockname()[1],
            manifests=self._manifests,
        )
        write_private(self._home.endpoint_file, endpoint.model_dump_json())
        return url

    def _former(self) -> Endpoint | None:
        """Return where this controller listened before Ray restarted it.

        Users and Prometheus still use that address.
        """
        return self._home.endpoint() if self._home.endpoint_file.exists() else None

    def _expose(self) -> Exposition:
        return self._metrics.expose(self._farm.state())

    def _targets(self, exporter: socket.socket) -> list[dict[str, Any]]:
        return targets(address_of(exporter), self._farm.state().agents)


async def keep_time(farm: Farm, feed: Feed, store_pause_s: float = STORE_PAUSE_S) -> None:
    """Call the farm's tick whenever something may expire, forever; pause if the store fails."""
    trouble = ""
    while True:
        # Sleeps until something may expire; checks again when a new lease changes that.
        if await feed.change(farm.next_tick_in()):
            continue
        try:
            farm.tick()
            trouble = ""
        except StoreUnavailable as error:
            if str(error) != trouble:
                log.error(
                    "leases and bookings cannot end until the store can be written: %s", error
                )
            trouble = str(error)
            await asyncio.sleep(store_pause_s)


def _die_with(task: asyncio.Task[Any]) -> None:
    # Without its clock no lease would expire: end, and let Ray restart this actor.
    if not task.cancelled() and task.exception():
        end_for_restart("the controller cannot go on", task.exception())
