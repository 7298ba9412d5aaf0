"""The phones that are connected now, and who may use each."""

from __future__ import annotations

import asyncio
import logging
from collections import defaultdict
from collections.abc import AsyncIterator, Collection
from contextlib import AsyncExitStack, asynccontextmanager, nullcontext, suppress
from dataclasses import dataclass, field
from pathlib import Path

from agents.remotes.adb.connections import Route, without_doubles
from agents.remotes.adb.remote import AdbRemote
from agents.remotes.remote import FaultKind, RemoteFault
from controller.contracts.device import Device
from controller.platform.locks import exclusive

log = logging.getLogger(__name__)
RETURN_S = 15.0
"""Seconds for phones to return after a restart of their adb server."""


@dataclass(frozen=True, slots=True)
class Phone:
    """A connected phone."""

    serial: str
    device: Device
    remote: AdbRemote

    @property
    def route(self) -> Route:
        """The connection that it uses."""
        return self.remote.link.route


@dataclass(slots=True)
class PhoneRegistry:
    """The connected phones of one agent."""

    uses: Path
    """Folder with a lock file for each phone, held by a run, a probe, a cleanup, or a command of
    `benchfarm phone` in another process."""
    here: dict[str, Phone] = field(default_factory=dict)
    """Device id → phone; unlike the serial, the id survives a change of port or cable."""
    _locks: defaultdict[str, asyncio.Lock] = field(
        default_factory=lambda: defaultdict(asyncio.Lock)
    )
    _kept: set[str] = field(default_factory=set)
    """Ids of phones whose locks a restart of adb holds until they return."""
    _claimed: set[str] = field(default_factory=set)
    """Ids of phones on which no other host's run is left."""
    _losing: bool = False
    """Whether an adb restart is about to disconnect all phones, including any new one."""
    _arrived: asyncio.Event = field(default_factory=asyncio.Event)

    def alone(self, device_id: str) -> asyncio.Lock:
        """Return the lock to hold while using a phone, so that no cleanup ends a run."""
        return self._locks[device_id]

    @asynccontextmanager
    async def used(self, device_id: str) -> AsyncIterator[None]:
        """Lock a phone while a run or a probe uses it; `benchfarm phone clean` checks this lock."""
        async with self.alone(device_id), self._without_commands(device_id):
            yield

    @asynccontextmanager
    async def _without_commands(self, device_id: str) -> AsyncIterator[None]:
        """Keep the commands of `benchfarm phone` off a phone, and wait for one that uses it."""
        self.uses.mkdir(parents=True, exist_ok=True)
        async with exclusive(self.uses / device_id):
            yield

    async def claim(self, device_id: str, remote: AdbRemote) -> None:
        """End what another host's run left on a phone, and remove its files; called when a run
        begins.

        Not called when a phone is taken in: several hosts may reach a phone that only one of them
        has. Done only for the first run since the agent registered, because phones change hands
        only at a registration: an agent that was suspended, and doesn't know yet that another host
        has the phone now, must not end that host's run. Raises RemoteFault, also if another host's
        run is on a phone that was claimed before.
        """
        if device_id in self._claimed:
            await remote.require_alone()
            return
        if ended := await remote.programs.end_others():
            log.warning("%s: ended %d programs of another host", device_id, ended)
            await remote.clean()
        self._claimed.add(device_id)

    def registered(self, refused: Collection[str]) -> None:
        """Drop the claims, since another host may have had a phone meanwhile.

        refused: ids of phones that another host has now; their claims stay, so that its runs are
        not ended.
        """
        self._claimed &= set(refused)

    @property
    def in_use(self) -> bool:
        """Whether anything uses or waits for a phone."""
        return any(lock.locked() for lock in self._locks.values())

    def by_route(self, route: Route) -> Phone | None:
        """Return the phone that is connected over a route, or None."""
        return next((phone for phone in self.here.values() if phone.route == route), None)

    async def take_in(self, phone: Phone) -> None:
        """Take in a phone and clean it, after whatever lost it before has ended.

        Raises RemoteFault, also while adb is being restarted, and PhoneClaimedTwice if the phone is
        already connected otherwise.
        """
        if self._is_here(phone):
            return
        kept = phone.device.id in self._kept
        async with nullcontext() if kept else self.alone(phone.device.id):
            if self._is_here(phone):
                return
            async with self._without_commands(phone.device.id):
                ended = await phone.remote.clean()
            if ended:
                log.warning("%s: ended %d programs of an earlier run", phone.serial, ended)
            if self._losing:
                raise RemoteFault(phone.serial, FaultKind.ADB_SERVER, "adb is being restarted")
            self.here[phone.device.id] = phone
            self._arrived.set()

    @asynccontextmanager
    async def kept(self) -> AsyncIterator[None]:
        """Hold all phones during a block that disconnects them; no run begins until they are back.

        Enter it only while no phone is in use. No phone is taken in meanwhile: its loss would go
        unnoticed.
        """
        before = dict(self.here)
        self._losing = True
        async with AsyncExitStack() as held:
            for lock in list(self._locks.values()):
                await held.enter_async_context(lock)
            self._kept |= self._locks.keys()
            try:
                yield
                self._losing = False
                await self._until_back(before)
            finally:
                self._losing = False
                self._kept.clear()

    async def _until_back(self, before: dict[str, Phone]) -> None:
        with suppress(TimeoutError):  # a phone that stays away is shown as offline
            async with asyncio.timeout(RETURN_S):
                while any(self.here.get(id_) in (None, phone) for id_, phone in before.items()):
                    self._arrived.clear()
                    await self._arrived.wait()

    def _is_here(self, phone: Phone) -> bool:
        """Return whether a phone is taken in; raises PhoneClaimedTwice if over another
        connection."""
        known = self.here.get(phone.device.id)
        if known is None:
            return False
        without_doubles((phone.device.id, route) for route in (known.route, phone.route))
        return True
