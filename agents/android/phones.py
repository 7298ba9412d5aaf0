"""The phones of one host: found by its adb server, described, announced, and reached."""

from __future__ import annotations

import asyncio
import logging
from collections import defaultdict
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from agents.transports.adb.facts import read_device
from agents.transports.adb.programs import Link
from agents.transports.adb.recovery import (
    PhoneClaimedTwice,
    Route,
    recover,
    without_doubles,
)
from agents.transports.adb.remote import AdbRemote
from agents.transports.adb.server import PrivateServer
from agents.transports.adb.smart_socket import Address
from agents.transports.adb.tracker import Change, track
from agents.transports.remote import FaultKind, RemoteFault
from controller.contracts.device import Device
from controller.contracts.errors import UserError

log = logging.getLogger(__name__)
ADB_FOLDER = "adb"
GREETINGS = 3
GREETING_PAUSE_S = 1.0
ADDRESS_FILE = "address"


@dataclass(frozen=True, slots=True)
class Phone:
    """A phone that is there now."""

    serial: str
    device: Device
    remote: AdbRemote


@dataclass(slots=True)
class Phones:
    """Follows an adb server; `announce` is called with all phones whenever they change."""

    owner: str
    announce: Callable[[Sequence[Device]], Awaitable[None]]
    _present: dict[str, Phone] = field(default_factory=dict)
    """By device id: the identity survives a change of port or cable, the serial need not."""
    _work: set[asyncio.Task[None]] = field(default_factory=set)
    _taking_in: defaultdict[str, asyncio.Lock] = field(
        default_factory=lambda: defaultdict(asyncio.Lock)
    )
    """By device id: a phone that flickers is greeted for each change, and taken in once."""

    def remote_of(self, device: Device) -> AdbRemote:
        """Return the way to a phone; raises RemoteFault if it isn't there now."""
        phone = self._present.get(device.id)
        if phone is None:
            message = "the phone is not connected; see benchfarm device list"
            raise RemoteFault(device.id, FaultKind.OFFLINE, message)
        return phone.remote

    async def suspect(self, device: Device) -> None:
        """Take a phone out that has just failed a run, until a probe finds it well again.

        Otherwise the run would be given to the same phone at once, and fail again and again.
        """
        phone = self._present.pop(device.id, None)
        if phone is None:
            return
        await self._tell()
        self._start(self._probe(phone.remote.link.server, phone.serial))

    async def watch(self, folder: Path) -> None:
        """Start the host's adb server and follow it; returns only if adb can't be had."""
        try:
            server = await PrivateServer.start(folder / ADB_FOLDER)
            address = folder / ADB_FOLDER / ADDRESS_FILE
            address.with_suffix(".new").write_text(str(server.address))
            address.with_suffix(".new").replace(address)
            async for change in track(server):
                await self._take(server.address, change)
        except UserError as error:
            log.error("this host reaches no phones: %s", error)

    async def _tell(self) -> None:
        await self.announce([phone.device for phone in self._present.values()])

    async def _probe(self, server: Address, serial: str) -> None:
        await self._recover(server, serial)
        await self._greet(server, serial)

    async def _take(self, server: Address, change: Change) -> None:
        """Follow one change; what may take long is begun, so that no phone waits for another."""
        if change.state == "device":
            self._start(self._greet(server, change.serial))
            return
        gone = [p.device.id for p in self._present.values() if p.serial == change.serial]
        for device_id in gone:
            del self._present[device_id]
        if gone:
            await self._tell()
        if change.state == "offline":
            self._start(self._recover(server, change.serial))
        elif change.state == "unauthorized":
            log.warning("%s: confirm this host's key on the phone's screen", change.serial)

    def _start(self, work: Coroutine[None, None, None]) -> None:
        task = asyncio.create_task(work)
        self._work.add(task)
        task.add_done_callback(self._work.discard)

    async def _greet(self, server: Address, serial: str) -> None:
        for _ in range(GREETINGS):
            if await self._welcome(server, serial):
                await self._tell()
                return
            await asyncio.sleep(GREETING_PAUSE_S)  # a link that has just come up may break again

    async def _welcome(self, server: Address, serial: str) -> bool:
        link = Link(server, serial)
        remote = AdbRemote.of(link, self.owner)
        try:
            device = await read_device(remote, serial, shell_v2=await link.has_shell_v2())
            async with self._taking_in[device.id]:
                await self._take_in(Phone(serial, device, remote))
        except RemoteFault as fault:
            log.warning("not taken in: %s", fault)
            return False
        except PhoneClaimedTwice as error:
            log.error("%s", error)
            return False
        return True

    async def _take_in(self, phone: Phone) -> None:
        """Raise RemoteFault, PhoneClaimedTwice; a phone that is here already may run something."""
        link = phone.remote.link
        known = self._present.get(phone.device.id)
        if known:
            routes = (Route(link.server, serial) for serial in (known.serial, phone.serial))
            without_doubles((phone.device.id, route) for route in routes)
            return
        if ended := await phone.remote.clean():
            log.warning("%s: ended %d programs of an earlier run", phone.serial, ended)
        self._present[phone.device.id] = phone

    async def _recover(self, server: Address, serial: str) -> None:
        try:
            await recover(server, serial)  # its return is a change of its own
        except RemoteFault as fault:
            log.warning("%s", fault)
