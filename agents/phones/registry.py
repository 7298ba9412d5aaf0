"""The phones that are there now, and who may use each of them."""

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
"""How long phones may take to be there again after a restart of their adb server."""


@dataclass(frozen=True, slots=True)
class Phone:
    """A phone that is there now."""

    serial: str
    device: Device
    remote: AdbRemote

    @property
    def route(self) -> Route:
        """The way to it."""
        return self.remote.link.route


@dataclass(slots=True)
class PhoneRegistry:
    """Of one agent's phones."""

    uses: Path
    """Folder in which phones that a run or a probe is on are locked, for other processes to see."""
    here: dict[str, Phone] = field(default_factory=dict)
    """By device id: the identity survives a change of port or cable, the serial need not."""
    _locks: defaultdict[str, asyncio.Lock] = field(
        default_factory=lambda: defaultdict(asyncio.Lock)
    )
    _kept: set[str] = field(default_factory=set)
    """Ids of phones whose locks are held until they are there again, by who restarts adb."""
    _claimed: set[str] = field(default_factory=set)
    """Ids of phones on which nothing of another host's runs."""
    _losing: bool = False
    """Whether all phones are about to be lost for a moment: one that came in now would be, too."""
    _arrived: asyncio.Event = field(default_factory=asyncio.Event)

    def alone(self, device_id: str) -> asyncio.Lock:
        """Return what is to be held while a phone is used: a run is never cleaned away."""
        return self._locks[device_id]

    @asynccontextmanager
    async def used(self, device_id: str) -> AsyncIterator[None]:
        """Hold a phone while a run or a probe is on it; `benchfarm phone clean` looks for that."""
        async with self.alone(device_id):
            self.uses.mkdir(parents=True, exist_ok=True)
            async with exclusive(self.uses / device_id):
                yield

    async def claim(self, device_id: str, remote: AdbRemote) -> None:
        """End what another host's run left on a phone, and remove it; called when our run begins.

        Not when it is taken in: two hosts may reach a phone that only one of them has. And only
        for the first run since the agent registered, without which no phone changes hands: one that
        has slept, and not heard yet that a phone is another's now, is not to end what runs there.
        Raises RemoteFault, also if another host's run is on a phone that was claimed before.
        """
        if device_id in self._claimed:
            await remote.require_alone()
            return
        if ended := await remote.programs.end_others():
            log.warning("%s: ended %d programs of another host", device_id, ended)
            await remote.clean()
        self._claimed.add(device_id)

    def registered(self, refused: Collection[str]) -> None:
        """Claim phones anew: another host may have had any of them meanwhile.

        refused: ids of what another host has now; what runs there is not this one's to end.
        """
        self._claimed &= set(refused)

    @property
    def in_use(self) -> bool:
        """Whether anything uses a phone, or waits for one that something else uses."""
        return any(lock.locked() for lock in self._locks.values())

    def by_route(self, route: Route) -> Phone | None:
        """Return the phone that is reached on a way."""
        return next((phone for phone in self.here.values() if phone.route == route), None)

    async def take_in(self, phone: Phone) -> None:
        """Have a phone here, cleaned; what has lost it before comes to its end first.

        Raises RemoteFault, also while all phones are about to be lost, and PhoneClaimedTwice if it
        is here on another way.
        """
        if self._is_here(phone):
            return
        kept = phone.device.id in self._kept
        async with nullcontext() if kept else self.alone(phone.device.id):
            if self._is_here(phone):
                return
            if ended := await phone.remote.clean():
                log.warning("%s: ended %d programs of an earlier run", phone.serial, ended)
            if self._losing:
                raise RemoteFault(phone.serial, FaultKind.ADB_SERVER, "adb is being restarted")
            self.here[phone.device.id] = phone
            self._arrived.set()

    @asynccontextmanager
    async def kept(self) -> AsyncIterator[None]:
        """For a block that loses all phones for a moment: no run may begin until they are back.

        To be entered while none is in use. What comes in meanwhile would be lost unnoticed.
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
        """Tell whether a phone is taken in; raises PhoneClaimedTwice if it is on another way."""
        known = self.here.get(phone.device.id)
        if known is None:
            return False
        without_doubles((phone.device.id, route) for route in (known.route, phone.route))
        return True
