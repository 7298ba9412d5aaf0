"""Discovery of one host's phones: follows adb servers, identifies phones, and takes them in."""

from __future__ import annotations

import asyncio
import logging
from collections import defaultdict
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Final

from agents.phones.recovery.actions import RecoveryActions
from agents.phones.recovery.policy import PROBES, Remedy, Step, next_step
from agents.phones.recovery.power_cycle import PowerCycle
from agents.phones.recovery.unavailable import BROKEN, UnavailablePhones
from agents.phones.registry import Phone, PhoneRegistry
from agents.phones.status_file import (
    StatusFiles,
    in_the_way,
    not_taken_in,
    route_status,
    unusable,
)
from agents.remotes.adb.addresses import Address
from agents.remotes.adb.connections import Route, is_tcp, let_go_of, recover
from agents.remotes.adb.facts import read_device
from agents.remotes.adb.programs import Link
from agents.remotes.adb.refusals import DEVICE
from agents.remotes.adb.remote import AdbRemote
from agents.remotes.adb.server import AttachedServer, PrivateServer
from agents.remotes.adb.tracker import Change, track
from agents.remotes.remote import FaultKind, RemoteFault
from controller.contracts.adb_status import (
    ADB_FOLDER,
    OTHER_STATUS_FILE,
    STATUS_FILE,
    STATUS_FILES,
    USES_FOLDER,
    AdbStatus,
)
from controller.contracts.device import AbsentDevice, Device
from controller.contracts.error_payload import ErrorPayload
from controller.contracts.errors import AdbUnavailable, PhoneClaimedTwice, UserError
from controller.contracts.phone_addresses import FOLDER as ADDRESSES_FOLDER
from controller.contracts.phone_addresses import PhoneAddresses

log = logging.getLogger(__name__)
GREETINGS = 3
"""Failed attempts before a phone is reported unusable: a new connection may break once."""
WAITING = ("authorizing", "unauthorized")
"""adb's states of a phone that waits for its user to authorise this host."""


@dataclass(frozen=True, slots=True)
class Pauses:
    """How long is waited before something is tried again, in seconds."""

    server_s: float = 10.0
    """Between attempts at what this host can't do, such as to start an adb server: what it lacks
    may be installed meanwhile."""
    first_s: float = 1.0
    """After the first failure to reach a phone; doubled after each other."""


PAUSES: Final = Pauses()


class Phones:
    """The phones on a host's adb servers; calls `announce` with all phones at each change."""

    def __init__(
        self,
        owner: str,
        folder: Path,
        announce: Callable[[Sequence[Device]], Awaitable[None]],
        link: Callable[[Address, str], Link] = Link,
        attached: Sequence[Address] = (),
        power_cycle: PowerCycle | None = None,
        pauses: Pauses = PAUSES,
    ) -> None:
        """folder: this agent's folder. attached: adb servers started by others; without any, the
        agent starts its own. power_cycle: the user's command for a phone that nothing else
        recovers."""
        self.present = PhoneRegistry(folder / ADB_FOLDER / USES_FOLDER)
        self._owner = owner
        self._folder = folder
        self._announce = announce
        self._link = link
        self._attached = attached
        self._pauses = pauses
        self._recovery = RecoveryActions(self.present, power_cycle)
        self._unavailable = UnavailablePhones()
        self._addresses = PhoneAddresses(folder / ADB_FOLDER / ADDRESSES_FOLDER)
        self._refused: dict[Route, UserError] = {}
        """Why the agent does not use a listed connection."""
        self._doubles: dict[Route, str] = {}
        """Second connection to a phone → device id."""
        self._elsewhere: Mapping[str, UserError] = {}
        """Device id → why the controller leaves the phone to another agent."""
        self._status_files = StatusFiles(folder / ADB_FOLDER)
        self._listed: set[Route] = set()
        """All connections that adb lists, in any state."""
        self._looks: defaultdict[Route, int] = defaultdict(int)
        self._used: defaultdict[Route, list[Remedy]] = defaultdict(list)
        """Recovery actions used so far. Kept here because a phone's reappearance in adb's list,
        which an action may cause, starts a new task."""
        self._tasks: dict[Route, asyncio.Task[None]] = {}
        """The task that takes in each phone."""

    def remote_of(self, device: Device) -> AdbRemote:
        """Return a phone's Remote; raises RemoteFault if the phone isn't connected now."""
        phone = self.present.here.get(device.id)
        if phone is None:
            message = "the phone is not connected; `benchfarm device list` says why"
            raise RemoteFault(device.id, FaultKind.OFFLINE, message)
        return phone.remote

    def absent(self) -> Sequence[AbsentDevice]:
        """Return the phones that were here and can't be used now; called at each registration."""
        return self._unavailable.told()

    async def suspect(self, device: Device) -> None:
        """Remove a phone that has just failed a run until a probe finds it healthy.

        Otherwise the run would be placed on the same phone at once and fail again.
        """
        phone = self.present.here.pop(device.id, None)
        if phone is None:
            return
        await self._tell()
        self._bring_in(phone.route)

    def leave(self, elsewhere: Mapping[str, UserError]) -> None:
        """Record the devices that other agents have; called at each registration."""
        self._elsewhere = elsewhere
        self.present.registered(elsewhere.keys())
        self._publish()

    async def watch(self) -> None:
        """Follow the adb servers forever; log why while there is none."""
        for old in (self._folder / ADB_FOLDER).glob(STATUS_FILES):
            old.unlink(missing_ok=True)
        servers: Sequence[AttachedServer | None] = [*map(AttachedServer, self._attached)] or [None]
        files = (STATUS_FILE, *(OTHER_STATUS_FILE.format(n) for n in range(1, len(servers))))
        await asyncio.gather(*map(self._follow, servers, files))

    async def _follow(self, attached: AttachedServer | None, status: str) -> None:
        while True:
            try:
                server = attached or await self._own_server()
                self._status_files.servers[status] = AdbStatus(server=str(server.address))
                self._publish()
                async for change in track(server):
                    await self._take(server.address, change)
            except AdbUnavailable as error:
                log.error("this host has no phones: %s", error)
                self._status_files.servers[status] = AdbStatus(complaint=ErrorPayload.of(error))
                self._publish()
            await asyncio.sleep(self._pauses.server_s)

    async def _own_server(self) -> PrivateServer:
        server = await PrivateServer.start(self._folder / ADB_FOLDER)
        self._recovery.server = server
        for serial in self._addresses:
            route = Route(server.address, serial)
            self._unavailable.knows(route, self._addresses.device_of(serial))
            self._bring_in(route)
        return server

    async def _take(self, server: Address, change: Change) -> None:
        """Handle one change; slow work becomes a task, so that no phone waits for another."""
        route = Route(server, change.serial)
        (self._listed.discard if change.state is None else self._listed.add)(route)
        self._looks[route] += 1
        self._refused.pop(route, None)
        superfluous = self._doubles.pop(route, None)
        if change.state == DEVICE:
            self._publish()
            self._bring_in(route, anew=True)
            return
        if self._addresses.is_let_go(change.serial) and (task := self._tasks.pop(route, None)):
            task.cancel()  # it would reconnect the phone
            self._used.pop(route, None)
        lost = self.present.by_route(route)
        if lost:
            del self.present.here[lost.device.id]
        if (self._away(route) and self._unavailable.saw(route, change.state)) or lost:
            await self._tell()
        self._publish()
        if lost and (other := self._other_way(lost)):
            self._bring_in(other)
        elif self._may_return(change, lost) or (change.state in BROKEN and not superfluous):
            self._bring_in(route)
        elif why := in_the_way(change.serial, change.state):
            self._refuse(route, why)

    def _may_return(self, change: Change, lost: Phone | None) -> bool:
        """Return whether a phone that left adb's list was in use and can be looked for."""
        if is_tcp(change.serial):
            missed = lost is not None or change.went_as in WAITING
            return missed and not self._addresses.is_let_go(change.serial)
        return lost is not None and self._recovery.power_cycle is not None

    def _other_way(self, phone: Phone) -> Route | None:
        return next((way for way, id_ in self._doubles.items() if id_ == phone.device.id), None)

    def _bring_in(self, route: Route, *, anew: bool = False) -> None:
        """Start taking in a phone; anew: restart if it is under way, since the phone can be reached
        now."""
        if task := self._tasks.get(route):
            if not anew:
                return
            task.cancel()
        task = asyncio.create_task(self._until_taken_in(self._link(route.server, route.serial)))
        self._tasks[route] = task
        task.add_done_callback(partial(self._ended, route))

    def _ended(self, route: Route, task: asyncio.Task[None]) -> None:
        if self._tasks.get(route) is task:
            del self._tasks[route]
        if not task.cancelled():
            task.result()

    async def _until_taken_in(self, link: Link) -> None:
        """Apply the recovery policy until the phone is taken in or given up."""
        failed = list(self._used[link.route])
        remedy: Remedy | None = Remedy.RECONNECT
        while remedy:
            fault = await self._greet_when_host_can(link)
            if fault is None:
                break
            failed.append(remedy)
            if len(failed) >= GREETINGS or fault.kind is FaultKind.UNAUTHORIZED:
                await self._miss(link.route, fault)
            step = await self._next_step(link, failed, fault)
            remedy = step.remedy
            if remedy is None and fault.kind is not FaultKind.UNAUTHORIZED:
                self._addresses.forget(link.serial)
                self._publish()
        self._used.pop(link.route, None)

    async def _next_step(self, link: Link, failed: Sequence[Remedy], fault: RemoteFault) -> Step:
        """Wait, then apply the next recovery action, short of trying to reach the phone again."""
        name = self._unavailable.device_of(link.route) or link.serial

        async def tell(what: str) -> None:
            log.warning("%s: %s", name, what)
            if self._away(link.route) and self._unavailable.did(link.route, what, fault.message):
                await self._tell()

        if fault.kind is not FaultKind.UNAUTHORIZED and len(failed) < PROBES:
            await asyncio.sleep(self._pauses.first_s * 2 ** (len(failed) - 1))
        came_otherwise = name in self.present.here
        if came_otherwise or self._addresses.is_let_go(link.serial):
            self._refused.pop(link.route, None)
            self._publish()
            return Step(None)
        step = next_step(failed, fault.kind, self._recovery.means(name))
        for why in step.left_out:
            await tell(why)
        if step.remedy:
            if step.remedy is not Remedy.RECONNECT:
                self._used[link.route].append(step.remedy)
            await self._recovery.apply(step.remedy, name, tell)
        return step

    async def _miss(self, route: Route, fault: RemoteFault) -> None:
        """Report why a phone can't be taken in: for its connection and, if it was here, its
        device."""
        self._refuse(route, unusable(route.serial, fault))
        if self._away(route) and self._unavailable.failed(route, fault.kind, fault.message):
            await self._tell()

    def _refuse(self, route: Route, error: UserError) -> None:
        log.error("%s", error)
        self._refused[route] = error
        self._publish()

    async def _greet_when_host_can(self, link: Link) -> RemoteFault | None:
        """Try to greet a phone; tries again while the fault is this host's, such as a full disk."""
        while True:
            try:
                return await self._try_to_greet(link)
            except OSError as error:
                self._refuse(link.route, not_taken_in(link.serial, self._folder, error))
                await asyncio.sleep(self._pauses.server_s)

    async def _try_to_greet(self, link: Link) -> RemoteFault | None:
        """Connect to a phone, identify it, and take it in or refuse it; return a fault, if any."""
        await self._recovery.settled()
        try:
            await recover(link.server, link.serial, link.return_s)
            remote = AdbRemote.of(link, self._owner)
            shell_v2 = await link.has_shell_v2()
            device = await read_device(remote, link.serial, shell_v2=shell_v2, read_s=link.quick_s)
            try:
                await self.present.take_in(Phone(link.serial, device, remote))
            except PhoneClaimedTwice as error:
                self._doubles[link.route] = device.id
                self._addresses.forget(link.serial)
                self._refuse(link.route, error)
                return None
        except RemoteFault as fault:
            log.warning("phone not taken in: %s", fault)
            if fault.kind is FaultKind.HUNG:
                await let_go_of(link.server, link.serial)
            return fault
        self._doubles.pop(link.route, None)
        self._refused.pop(link.route, None)
        self._unavailable.came(link.route, device.id)
        if self._recovery.server and is_tcp(link.serial):
            self._addresses.remember(link.serial, device.id)
        await self._tell()
        return None

    async def _tell(self) -> None:
        await self._announce([phone.device for phone in self.present.here.values()])
        self._publish()

    def _publish(self) -> None:
        """Write the status files; a connection that adb does not list appears only if it is
        remembered."""
        ways = {
            way: route_status(None, error, self._looks[way], self._away(way))
            for way, error in self._refused.items()
            if way in self._listed or way.serial in self._addresses
        }
        for phone in self.present.here.values():
            way, error = phone.route, self._elsewhere.get(phone.device.id)
            ways[way] = route_status(phone.device.id, error, self._looks[way])
        self._status_files.publish(ways)

    def _away(self, route: Route) -> str | None:
        """Return the id of the phone last reached over a connection, if the phone is away."""
        device_id = self._unavailable.device_of(route)
        return None if device_id in self.present.here else device_id
