"""Virtual phones and the phones of this host's agent, through processes of the agents' side."""

from __future__ import annotations

import os
import subprocess
import time
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

from controller.contracts.adb_status import USES_FOLDER, PhoneHere, RouteStatus
from controller.contracts.errors import (
    FarmUnavailable,
    PhoneClaimedTwice,
    PhoneUnavailable,
    UserError,
)
from controller.contracts.phone_addresses import FOLDER, PhoneAddresses
from controller.contracts.virtual_phone import PhoneFacts
from controller.platform.helper import Helper
from controller.platform.inherited import inherited
from controller.platform.processes import FARM_MARKER
from controller.platform.programs import PYTHON_MODES, python_module
from controller.runtime.adb_agents import ADB_START_S, RETRY_S, AdbAgent, agents_here, chosen
from controller.runtime.home import Home
from controller.store.sqlite import SqliteStore

ADBD_PORT = 5555
"""Default port of phones for adb."""
_LIST = "Run `benchfarm phone list` to see those that are."
Seen = TypeVar("Seen")


@dataclass(frozen=True, slots=True)
class StartedPhone:
    """A virtual phone that is a child of this process."""

    process: subprocess.Popen[bytes]
    facts: PhoneFacts

    @property
    def address(self) -> str:
        """HOST:PORT that adb connects to."""
        return self.facts.address


@contextmanager
def started_phone(
    profile: str, key: Path | None, instance: str | None = None, options: Sequence[str] = ()
) -> Iterator[StartedPhone]:
    """Run a virtual phone in this context; raises PhoneUnavailable, UserError.

    key: file of the host keys that it lets in; with None it lets none in, unless an option says
    otherwise. instance: marker of the farm that ends the phone, too, when it ends.
    """
    command = python_module("agents.virtual_phone", f"--profile={profile}", *options)
    keys = (f"--authorized-keys={key}",) if key else ()
    marker = {FARM_MARKER: instance} if instance else {}
    helper = Helper(
        (*command, *keys, "--until-stdin-closes"),
        f"start a virtual phone {profile}",
        remedy=f"Run `python -P -m agents.virtual_phone --profile={profile}` to see why.",
        kind=PhoneUnavailable,
        quiet=True,
        environ={**inherited(os.environ), **PYTHON_MODES, **marker},
    )
    with helper.started() as running:
        yield StartedPhone(running.process, running.first_answer(PhoneFacts))


def connect_phone(
    home: Home, address: str, server: str | None = None, retry_s: float = RETRY_S
) -> str:
    """Connect a phone to this host's agent over TCP; return its device id.

    address: HOST or HOST:PORT. server: the adb server that connects to it, if the agent has
    several. A second connection to a phone of the farm is closed again. Raises
    PhoneUnavailable, DeviceRefused, FarmUnavailable, UserError.
    """
    address = with_port(address)
    agent = chosen(f"connect phone {address}", agents_here(home), server)
    before = agent.read().routes.get(address)
    _addresses(agent).take_back(address)
    refused = before is not None and before.complaint is not None
    agent.ask("connect", address, *["anew"] * refused)  # the agent looks at it once more
    looks = before.look if before and refused else -1

    def outcome() -> RouteStatus | None:
        now = agent.read().routes.get(address)
        return now if now and now.look > looks else None

    route = _await(f"connect phone {address}", outcome, retry_s)
    if route.complaint is None:
        return str(route.device_id)
    error = route.complaint.error()
    if isinstance(error, PhoneClaimedTwice):
        agent.ask("disconnect", address)
        remedy = "It is disconnected again; start a second virtual phone with its own `--serial`."
        raise PhoneClaimedTwice(error.tried, error.seen, remedy)
    raise error


def disconnect_phone(home: Home, phone: str) -> str:
    """Disconnect a phone from this host's agent; return its address.

    phone: its address or device id. Raises PhoneUnavailable if no such phone is here,
    FarmUnavailable, UserError.
    """
    tried = f"disconnect phone {phone}"
    found = next(_ways_to(home, phone), None)
    if found is None:
        raise PhoneUnavailable(tried, "it is not here", _LIST)
    agent, address = found
    if ":" not in address:
        raise UserError(tried, "it is connected by a cable", "Unplug the cable.")

    def is_gone() -> bool:
        # Each time: what the agent was doing with the phone may have brought it back.
        _addresses(agent).let_go(address)
        agent.ask("disconnect", address)
        route = agent.read().routes.get(address)
        return route is None

    _await(tried, is_gone)
    return address


def _ways_to(home: Home, phone: str) -> Iterator[tuple[AdbAgent, str]]:
    """Yield the connections that this host's agent sees, then a remembered address."""
    address = with_port(phone)
    for agent, serial, route in routes_here(home):
        if serial in (phone, address) or phone in (route.device_id, route.last_device_id):
            yield agent, serial
    for agent in agents_here(home):
        if address in _addresses(agent):
            yield agent, address


def _addresses(agent: AdbAgent) -> PhoneAddresses:
    return PhoneAddresses(agent.folder / FOLDER)


def with_port(address: str) -> str:
    """Return a phone's address as adb lists it, with the default port if it has none."""
    if address.count(":") > 1 and not address.startswith("["):
        address = f"[{address}]"  # IPv6
    return address if ":" in address.rpartition("]")[2] else f"{address}:{ADBD_PORT}"


def clean_phone(home: Home, device_id: str) -> int:
    """Remove all files of runs from a phone; return the bytes freed.

    Raises PhoneUnavailable if it has a run or a probe or is not here, FarmUnavailable.
    """
    for agent, serial, route in routes_here(home):
        if route.device_id == device_id:
            lock = agent.folder / USES_FOLDER / device_id
            return agent.ask("clean", serial, str(lock)).freed_bytes
    raise PhoneUnavailable(f"clean phone {device_id}", "it is not here", _LIST)


def routes_here(home: Home) -> Iterator[tuple[AdbAgent, str, RouteStatus]]:
    """Yield every connection to a phone that this host's agent sees, with its adb serial.

    Raises FarmUnavailable.
    """
    for agent in agents_here(home):
        for serial, route in agent.read().routes.items():
            yield agent, serial, route


def phones_here(home: Home) -> list[PhoneHere]:
    """Return every connection to a phone that this host's agent sees, unusable ones first.

    Raises FarmUnavailable.
    """
    found = [
        PhoneHere(adb_server=str(status.server), serial=serial, **dict(route))
        for status in (agent.read() for agent in agents_here(home))
        for serial, route in status.routes.items()
    ]
    return sorted(found, key=lambda p: (p.complaint is None, p.adb_server, p.serial))


def complaints_here(home: Home, shown: Collection[str] = ()) -> list[UserError]:
    """Return why phones of this host's adb servers are not used; waits for no agent.

    shown: ids of devices to leave out, since they are shown elsewhere with their reason.
    """
    if home.cluster() is None:
        return []
    try:
        statuses = [AdbAgent(file).read() for file in home.adb_statuses()]
    except FarmUnavailable:  # it has just been ended
        return []
    routes = [route for status in statuses for route in status.routes.values()]
    return [r.complaint.error() for r in routes if r.complaint and r.last_device_id not in shown]


def adb_key(home: Home, server: str | None = None) -> Path | None:
    """Return the public key of this host's adb server; None for a server that others run.

    Waits for the server, which makes the key before it listens; raises as `connect_phone`.
    """
    agent = chosen("find the adb server's key", agents_here(home), server)
    key = agent.folder / ".android" / "adbkey.pub"
    return key if key.exists() else None


def key_to_let_in(home: Home, server: str | None = None) -> Path:
    """Return the public key for a virtual phone on this host to let in; raises UserError."""
    tried, option = "start a virtual phone", "`--key adbkey.pub`"
    try:
        key = adb_key(home, server)
    except FarmUnavailable as error:
        seen = f"it must let in this host's agent, and {error.seen}"
        remedy = f"Run `benchfarm up`, or name the file with the key: {option}."
        raise UserError(tried, seen, remedy) from error
    if key is None:
        seen = "the key of an adb server that others run is not known"
        raise UserError(tried, seen, f"Name the file with the key: {option}.")
    return key


def await_devices(home: Home, wanted: Collection[str]) -> None:
    """Wait until devices are registered and online; raises PhoneUnavailable."""
    give_up = time.monotonic() + ADB_START_S
    with closing(SqliteStore.open_reader(home.store)) as store:
        while True:
            online = {d.device.id for d in store.fleet()[1] if d.online}
            if missing := sorted(set(wanted) - online):
                if time.monotonic() < give_up:
                    time.sleep(RETRY_S)
                    continue
                raise PhoneUnavailable(
                    f"find {', '.join(missing)}", "not registered", "See the agent's log."
                )
            return


def _await(tried: str, seen_of: Callable[[], Seen | None], retry_s: float = RETRY_S) -> Seen:
    """Wait for the agent's result and return it; raises PhoneUnavailable."""
    give_up = time.monotonic() + ADB_START_S
    while not (found := seen_of()):
        if time.monotonic() >= give_up:
            seen = f"the agent has not looked at it within {ADB_START_S:g} s"
            raise PhoneUnavailable(tried, seen, "See the agent's log.")
        time.sleep(retry_s)
    return found
