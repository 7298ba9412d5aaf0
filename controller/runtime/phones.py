"""Virtual phones, and phones for this host's agent; done by processes of the agents' side."""

from __future__ import annotations

import json
import os
import subprocess
import time
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

from controller.contracts.adb_status import USES_FOLDER, AdbStatus, Answer, PhoneHere, RouteStatus
from controller.contracts.complaint import Complaint
from controller.contracts.documents import read_json
from controller.contracts.errors import (
    FarmUnavailable,
    HomeUnusable,
    PhoneClaimedTwice,
    PhoneUnavailable,
    UserError,
)
from controller.contracts.inherited import inherited
from controller.contracts.processes import FARM_MARKER
from controller.contracts.programs import SAFE_PATH, python_module
from controller.contracts.unreadable import UNREADABLE, reason
from controller.runtime.home import Home
from controller.store.sqlite import SqliteStore

STOP_S = 10.0
ADB_START_S = 20.0
ADBD_PORT = 5555
"""Where phones listen for adb, unless told otherwise."""
RETRY_S = 0.2
Seen = TypeVar("Seen")


@dataclass(frozen=True, slots=True)
class StartedPhone:
    """A virtual phone that runs as a child of this process."""

    process: subprocess.Popen[str]
    facts: dict[str, object]

    @property
    def address(self) -> str:
        """HOST:PORT that adb connects to."""
        return str(self.facts["address"])


@contextmanager
def started_phone(
    profile: str, key: Path | None, instance: str | None = None, options: Sequence[str] = ()
) -> Iterator[StartedPhone]:
    """Be host to a virtual phone for a while; raises PhoneUnavailable, UserError.

    key: a file of the only host keys it lets in; with None it asks its user, who can't answer yet,
    unless an option says otherwise. instance: of the farm whose end is to end the phone, too.
    """
    command = [*python_module("agents.android.virtual", f"--profile={profile}", *options)]
    command += [f"--authorized-keys={key}"] if key else []
    marker = {FARM_MARKER: instance} if instance else {}
    process = subprocess.Popen(
        [*command, "--until-stdin-closes"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**inherited(os.environ), **SAFE_PATH, **marker},
    )
    try:
        said = process.stdout.readline() if process.stdout else ""
        if not said:
            raise _not_started(profile, process)
        facts = json.loads(said)
        Complaint.raise_if_said(facts)
        yield StartedPhone(process, facts)
    finally:
        for pipe in (process.stdin, process.stdout, process.stderr):
            if pipe:
                pipe.close()  # the phone ends when its standard input does
        try:
            process.wait(STOP_S)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def connect_phone(home: Home, address: str, server: str | None = None) -> str:
    """Have this host's agent take in a phone over TCP; return which phone it is.

    address: HOST or HOST:PORT. server: the adb server that is to connect to it, where the agent
    follows several. A second way to a phone that is in the farm already is closed again. Raises
    PhoneUnavailable, DeviceRefused, FarmUnavailable, UserError.
    """
    address = with_port(address)
    agent = _chosen(f"connecting phone {address}", _agents(home), server)
    before = agent.read().routes.get(address)
    if before and before.complaint:
        agent.ask("disconnect", address)  # so that the agent looks at it anew
        _await(f"disconnecting phone {address}", lambda: address not in agent.read().routes)
    agent.ask("connect", address)
    route = _await(f"connecting phone {address}", lambda: agent.read().routes.get(address))
    if route.complaint is None:
        return str(route.device_id)
    error = route.complaint.error()
    if isinstance(error, PhoneClaimedTwice):
        agent.ask("disconnect", address)
        remedy = "the second is disconnected again; a second virtual phone needs its own --serial"
        raise PhoneClaimedTwice(error.tried, error.seen, remedy)
    raise error


def with_port(address: str) -> str:
    """Return a phone's address as adb lists it: with the usual port if none is named."""
    if address.count(":") > 1 and not address.startswith("["):
        address = f"[{address}]"  # IPv6
    return address if ":" in address.rpartition("]")[2] else f"{address}:{ADBD_PORT}"


def clean_phone(home: Home, device_id: str) -> int:
    """Remove all that runs have put on a phone; return how many bytes that freed.

    Raises PhoneUnavailable if a run or a probe is on it or it is not here, FarmUnavailable.
    """
    for agent, serial, route in routes_here(home):
        if route.device_id == device_id:
            lock = agent.folder / USES_FOLDER / device_id
            return agent.ask("clean", serial, str(lock)).freed_bytes
    raise PhoneUnavailable(
        f"cleaning phone {device_id}", "it is not here", "see what is: benchfarm phone list"
    )


def routes_here(home: Home) -> Iterator[tuple[_Agent, str, RouteStatus]]:
    """Yield every way to a phone that this host's agent sees, by its adb serial there.

    Raises FarmUnavailable.
    """
    for agent in _agents(home):
        for serial, route in agent.read().routes.items():
            yield agent, serial, route


def phones_here(home: Home) -> list[PhoneHere]:
    """Return every way to a phone that this host's agent sees; raises FarmUnavailable."""
    found = [
        PhoneHere(adb_server=str(status.server), serial=serial, **dict(route))
        for status in (agent.read() for agent in _agents(home))
        for serial, route in status.routes.items()
    ]
    return sorted(found, key=lambda phone: (phone.adb_server, phone.serial))


def adb_key(home: Home, server: str | None = None) -> Path | None:
    """Return the public key by which this host's adb server is known to phones.

    None for a server that others run. Waits for the server, which makes the key before it listens;
    raises as `connect_phone` does.
    """
    agent = _chosen("looking for the adb server's key", _agents(home), server)
    key = agent.folder / ".android" / "adbkey.pub"
    return key if key.exists() else None


def key_to_let_in(home: Home, server: str | None = None) -> Path:
    """Return the public key that a virtual phone on this host is to let in; raises UserError."""
    tried, remedy = "starting a virtual phone", "name the file with the key: --key adbkey.pub"
    try:
        key = adb_key(home, server)
    except FarmUnavailable as error:
        seen = f"it is to let in this host's agent, and {error.seen}"
        raise UserError(tried, seen, f"run: benchfarm up; or {remedy}") from error
    if key is None:
        raise UserError(tried, "the key of an adb server that others run is not known", remedy)
    return key


def await_devices(home: Home, wanted: Collection[str]) -> None:
    """Return once devices have registered and are ready; raises PhoneUnavailable."""
    give_up = time.monotonic() + ADB_START_S
    with closing(SqliteStore.open_reader(home.store)) as store:
        while True:
            online = {d.device.id for d in store.fleet()[1] if d.online}
            if missing := sorted(set(wanted) - online):
                if time.monotonic() < give_up:
                    time.sleep(RETRY_S)
                    continue
                raise PhoneUnavailable(
                    f"waiting for {', '.join(missing)}", "not registered", "see the agent's log"
                )
            return


@dataclass(frozen=True, slots=True)
class _Agent:
    """An agent of this host, as one of its adb servers shows it."""

    status_file: Path

    @property
    def folder(self) -> Path:
        """Where the agent keeps all that belongs to its adb servers."""
        return self.status_file.parent

    def read(self) -> AdbStatus:
        """Return what the agent says now; raises FarmUnavailable if it has just been ended.

        Raises HomeUnusable if its file is damaged.
        """
        try:
            return read_json(AdbStatus, self.status_file)
        except FileNotFoundError as error:
            raise _no_agent(self.status_file) from error
        except UNREADABLE as error:
            seen, remedy = f"it is damaged: {reason(error)}", "delete it: the agent writes it anew"
            raise HomeUnusable(f"reading {self.status_file}", seen, remedy) from error

    def ask(self, verb: str, phone: str, *more: str) -> Answer:
        """Do something with a phone of its server; raises PhoneUnavailable."""
        server = str(self.read().server)
        command = python_module("agents.transports.adb", verb, server, phone, *more)
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode == 0:
            return Answer.model_validate_json(done.stdout)
        if done.stdout:
            raise Complaint.model_validate_json(done.stdout).error()
        seen = done.stderr.strip()[-300:]
        raise PhoneUnavailable(f"{verb} phone {phone}", seen, "see the agent's log")


def _agents(home: Home) -> list[_Agent]:
    """Return the agent of this host by each of its adb servers, one at least.

    Raises FarmUnavailable, and PhoneUnavailable if there is a complaint about all of them. A server
    comes a little after its agent.
    """
    give_up = time.monotonic() + ADB_START_S
    while home.cluster() is not None:
        found = {agent: agent.read() for agent in map(_Agent, home.adb_statuses())}
        complaints = [status.complaint for status in found.values() if status.complaint]
        if there := [agent for agent, status in found.items() if status.server]:
            return there
        if complaints:
            raise complaints[0].error()
        if time.monotonic() >= give_up:
            break
        time.sleep(RETRY_S)
    raise _no_agent(home.path)


def _chosen(tried: str, agents: Sequence[_Agent], server: str | None) -> _Agent:
    """Return the agent by the server that a user has named, or by its only one.

    Raises UserError.
    """
    known = {str(agent.read().server): agent for agent in agents}
    if server is None and len(known) == 1:
        return agents[0]
    if server in known:
        return known[server]
    names = ", ".join(sorted(known))
    seen = f"this host's agent uses the adb server{'s' * (len(known) > 1)} {names}"
    raise UserError(tried, seen, "say which: --adb-server SERVER")


def _no_agent(place: Path) -> FarmUnavailable:
    tried = f"looking for the adb server of {place}"
    return FarmUnavailable(tried, "no agent with one is up here", "run: benchfarm up")


def _await(tried: str, seen_of: Callable[[], Seen | None]) -> Seen:
    """Return what the agent has done, once it is seen; raises PhoneUnavailable."""
    give_up = time.monotonic() + ADB_START_S
    while not (found := seen_of()):
        if time.monotonic() >= give_up:
            seen = f"the agent has not looked at it in {ADB_START_S:g} s"
            raise PhoneUnavailable(tried, seen, "see the agent's log")
        time.sleep(RETRY_S)
    return found


def _not_started(profile: str, process: subprocess.Popen[str]) -> PhoneUnavailable:
    said = process.stderr.read().strip().splitlines() if process.stderr else []
    seen = said[-1] if said else f"it exited with {process.wait()}"
    remedy = f"start it by itself: python -P -m agents.android.virtual --profile={profile}"
    return PhoneUnavailable(f"starting a virtual phone {profile}", seen, remedy)
