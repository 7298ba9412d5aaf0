"""The phones of one host: found by its adb server, described, announced, and reached."""

from __future__ import annotations

import asyncio
import logging
from collections import defaultdict
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

from agents.transports.adb.facts import read_device
from agents.transports.adb.programs import Link
from agents.transports.adb.recovery import Route, is_tcp, recover, without_doubles
from agents.transports.adb.refusals import DEVICE
from agents.transports.adb.remote import AdbRemote
from agents.transports.adb.server import PrivateServer
from agents.transports.adb.smart_socket import Address
from agents.transports.adb.tracker import Change, track
from agents.transports.remote import FaultKind, RemoteFault
from controller.contracts.adb_status import ADB_FOLDER, STATUS_FILE, AdbStatus, RouteStatus
from controller.contracts.complaint import Complaint
from controller.contracts.device import Device
from controller.contracts.errors import (
    AdbUnavailable,
    PhoneClaimedTwice,
    PhoneUnavailable,
    UserError,
)

log = logging.getLogger(__name__)
BROKEN = ("offline", "unauthorized")
"""States from which a phone may come back."""
SERVER_PAUSE_S = 10.0
"""Between attempts to start an adb server: what it lacks may be installed meanwhile."""
GREETINGS = 3
"""So many fail before it is said of a phone: a link that has just come up may break again."""
PROBES = 10
"""How often a phone is looked for; the pauses double, 17 minutes in all."""
FIRST_PAUSE_S = 1.0


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
    folder: Path
    """Of this agent."""
    announce: Callable[[Sequence[Device]], Awaitable[None]]
    link: Callable[[Address, str], Link] = Link
    _present: dict[str, Phone] = field(default_factory=dict)
    """By device id: the identity survives a change of port or cable, the serial need not."""
    _refused: dict[str, UserError] = field(default_factory=dict)
    """By serial: why this agent does not use what adb lists."""
    _doubles: dict[str, str] = field(default_factory=dict)
    """Serial → device id: second ways to a phone."""
    _elsewhere: Mapping[str, UserError] = field(default_factory=dict)
    """By device id: phones that the controller leaves to another agent."""
    _status: AdbStatus = field(default_factory=AdbStatus)
    _tasks: dict[str, asyncio.Task[None]] = field(default_factory=dict)
    """By serial: what brings a phone in."""
    _alone: defaultdict[str, asyncio.Lock] = field(
        default_factory=lambda: defaultdict(asyncio.Lock)
    )

    def remote_of(self, device: Device) -> AdbRemote:
        """Return the way to a phone; raises RemoteFault if it isn't there now."""
        phone = self._present.get(device.id)
        if phone is None:
            message = "the phone is not connected; see benchfarm device list"
            raise RemoteFault(device.id, FaultKind.OFFLINE, message)
        return phone.remote

    def alone(self, device: Device) -> asyncio.Lock:
        """Return what is to be held while a phone is used: a run is never cleaned away."""
        return self._alone[device.id]

    async def suspect(self, device: Device) -> None:
        """Take a phone out that has just failed a run, until a probe finds it well again.

        Otherwise the run would be given to the same phone at once, and fail again and again.
        """
        phone = self._present.pop(device.id, None)
        if phone is None:
            return
        await self._tell()
        self._bring_in(phone.remote.link.server, phone.serial)

    def leave(self, elsewhere: Mapping[str, UserError]) -> None:
        """Take note of the devices that other agents have; called at each registration."""
        self._elsewhere = elsewhere
        self._publish()

    async def watch(self) -> None:
        """Have an adb server and follow it, for ever; says why as long as there is none."""
        while True:
            try:
                server = await PrivateServer.start(self.folder / ADB_FOLDER)
                self._status = AdbStatus(server=str(server.address))
                self._publish()
                async for change in track(server):
                    await self._take(server.address, change)
            except AdbUnavailable as error:
                log.error("this host reaches no phones: %s", error)
                self._status = AdbStatus(complaint=Complaint.of(error))
                self._publish()
            await asyncio.sleep(SERVER_PAUSE_S)

    async def _take(self, server: Address, change: Change) -> None:
        """Follow one change; what may take long is begun, so that no phone waits for another."""
        serial = change.serial
        self._refused.pop(serial, None)
        superfluous = self._doubles.pop(serial, None)
        if change.state == DEVICE:
            self._publish()
            self._bring_in(server, serial, anew=True)
            return
        lost = next((p for p in self._present.values() if p.serial == serial), None)
        if lost:
            del self._present[lost.device.id]
            await self._tell()
        self._publish()
        if lost and (other := self._other_way(lost)):
            self._bring_in(server, other)
        elif (lost and is_tcp(serial)) or (change.state in BROKEN and not superfluous):
            self._bring_in(server, serial)

    def _other_way(self, phone: Phone) -> str | None:
        return next((s for s, id_ in self._doubles.items() if id_ == phone.device.id), None)

    def _bring_in(self, server: Address, serial: str, *, anew: bool = False) -> None:
        """Begin to see that a phone is taken in; anew, if it can be reached now."""
        if task := self._tasks.get(serial):
            if not anew:
                return
            task.cancel()
        task = asyncio.create_task(self._until_taken_in(self.link(server, serial)))
        self._tasks[serial] = task
        task.add_done_callback(partial(self._ended, serial))

    def _ended(self, serial: str, task: asyncio.Task[None]) -> None:
        if self._tasks.get(serial) is task:
            del self._tasks[serial]
        if not task.cancelled():
            task.result()

    async def _until_taken_in(self, link: Link) -> None:
        for probe in range(1, PROBES + 1):
            try:
                await recover(link.server, link.serial, link.return_s)
                await self._greet(link)
                return
            except RemoteFault as fault:
                log.warning("phone not taken in: %s", fault)
                if probe >= GREETINGS:
                    self._refuse(link.serial, _unusable(link.serial, fault))
                if fault.kind is FaultKind.UNAUTHORIZED:
                    return  # adb tells when the phone's user has let this host in
            await asyncio.sleep(FIRST_PAUSE_S * 2 ** (probe - 1))

    def _refuse(self, serial: str, error: UserError) -> None:
        log.error("%s", error)
        self._refused[serial] = error
        self._publish()

    async def _greet(self, link: Link) -> None:
        """Find out which phone it is, and take it in or refuse it; raises RemoteFault."""
        remote = AdbRemote.of(link, self.owner)
        device = await read_device(remote, link.serial, shell_v2=await link.has_shell_v2())
        try:
            await self._take_in(Phone(link.serial, device, remote))
        except PhoneClaimedTwice as error:
            self._doubles[link.serial] = device.id
            self._refuse(link.serial, error)
            return
        self._doubles.pop(link.serial, None)
        self._refused.pop(link.serial, None)
        await self._tell()

    async def _take_in(self, phone: Phone) -> None:
        """Raise RemoteFault, PhoneClaimedTwice; a run that has lost the phone ends before."""
        if self._is_here(phone):
            return
        async with self.alone(phone.device):
            if self._is_here(phone):
                return
            if ended := await phone.remote.clean():
                log.warning("%s: ended %d programs of an earlier run", phone.serial, ended)
            self._present[phone.device.id] = phone

    def _is_here(self, phone: Phone) -> bool:
        """Tell whether a phone is taken in; raises PhoneClaimedTwice if it is on another way."""
        known = self._present.get(phone.device.id)
        if known is None:
            return False
        server = phone.remote.link.server
        routes = (Route(server, serial) for serial in (known.serial, phone.serial))
        without_doubles((phone.device.id, route) for route in routes)
        return True

    async def _tell(self) -> None:
        await self.announce([phone.device for phone in self._present.values()])
        self._publish()

    def _publish(self) -> None:
        """Tell the command line of this host."""
        routes = {serial: _route(None, error) for serial, error in self._refused.items()}
        for phone in self._present.values():
            routes[phone.serial] = _route(phone.device.id, self._elsewhere.get(phone.device.id))
        status = self._status.model_copy(update={"routes": routes})
        folder = self.folder / ADB_FOLDER
        new = folder / f".{STATUS_FILE}.new"
        try:
            folder.mkdir(parents=True, exist_ok=True)
            new.write_text(status.model_dump_json())
            new.replace(folder / STATUS_FILE)
        except OSError as error:  # a full disk, say: phones work on
            log.error("benchfarm phone knows no news: %s", error)


def _route(device_id: str | None, error: UserError | None) -> RouteStatus:
    return RouteStatus(device_id=device_id, complaint=Complaint.of(error) if error else None)


def _unusable(serial: str, fault: RemoteFault) -> PhoneUnavailable:
    return PhoneUnavailable(
        f"reaching phone {serial}", fault.message, "see that it answers, and connect it again"
    )
