"""Virtual phones, and phones for this host's agent; done by processes of the agents' side."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

from controller.contracts.adb_status import AdbStatus, Answer
from controller.contracts.complaint import Complaint
from controller.contracts.errors import FarmUnavailable, PhoneClaimedTwice, PhoneUnavailable
from controller.contracts.processes import FARM_MARKER
from controller.runtime.fleet import devices_now
from controller.runtime.home import Home
from controller.store.sqlite import SqliteStore

STOP_S = 10.0
ADB_START_S = 20.0
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
    """Be host to a virtual phone for a while; raises PhoneUnavailable.

    key: the only host key it lets in; None lets in every local user. instance: of the farm whose
    end is to end the phone, too.
    """
    command = [sys.executable, "-m", "agents.android.virtual", f"--profile={profile}", *options]
    command += [f"--authorized-keys={key}"] if key else []
    marker = {FARM_MARKER: instance} if instance else {}
    process = subprocess.Popen(
        [*command, "--until-stdin-closes"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, **marker},
    )
    try:
        said = process.stdout.readline() if process.stdout else ""
        if not said:
            raise _not_started(profile, process)
        yield StartedPhone(process, json.loads(said))
    finally:
        for pipe in (process.stdin, process.stdout, process.stderr):
            if pipe:
                pipe.close()  # the phone ends when its standard input does
        try:
            process.wait(STOP_S)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def connect_phone(home: Home, address: str) -> str:
    """Have this host's agent take in a phone over TCP; return which phone it is.

    A second way to a phone that is in the farm already is closed again. Raises PhoneUnavailable,
    DeviceHeldElsewhere, FarmUnavailable.
    """
    agent = _agent(home)
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


def clean_phone(home: Home, device_id: str) -> int:
    """Remove all that runs have put on a phone; return how many bytes that freed.

    Raises PhoneUnavailable if a run is on it or it is not here, FarmUnavailable.
    """
    tried = f"cleaning phone {device_id}"
    agent = _agent(home)
    with closing(SqliteStore.open_reader(home.store)) as store:
        runs = {d.device.id: d.run_id for d in devices_now(home, store)}
    if run_id := runs.get(device_id):
        remedy = "wait for its end, or cancel its sweep"
        raise PhoneUnavailable(tried, f"run {run_id} is on it", remedy)
    routes = agent.read().routes.items()
    serial = next((serial for serial, route in routes if route.device_id == device_id), None)
    if serial is None:
        raise PhoneUnavailable(tried, "it is not here", "see what is: benchfarm device list")
    return agent.ask("clean", serial).freed_bytes


def adb_key(home: Home) -> Path:
    """Return the public key by which this host's adb server is known to phones.

    Waits for the server, which makes the key before it listens; raises FarmUnavailable,
    PhoneUnavailable.
    """
    return _agent(home).status_file.parent / ".android" / "adbkey.pub"


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
    """An agent of this host that has an adb server."""

    status_file: Path

    def read(self) -> AdbStatus:
        """Return what the agent says now; raises FarmUnavailable if it has just been ended."""
        try:
            return AdbStatus.model_validate_json(self.status_file.read_text())
        except FileNotFoundError as error:
            raise _no_agent(self.status_file) from error

    def ask(self, verb: str, phone: str) -> Answer:
        """Do something with a phone of its server; raises PhoneUnavailable."""
        command = [
            sys.executable,
            "-m",
            "agents.transports.adb",
            verb,
            str(self.read().server),
            phone,
        ]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode == 0:
            return Answer.model_validate_json(done.stdout)
        if done.stdout:
            raise Complaint.model_validate_json(done.stdout).error()
        seen = done.stderr.strip()[-300:]
        raise PhoneUnavailable(f"{verb} phone {phone}", seen, "see the agent's log")


def _agent(home: Home) -> _Agent:
    """Return the agent of this host; raises FarmUnavailable, PhoneUnavailable.

    Its adb server comes a little after it.
    """
    give_up = time.monotonic() + ADB_START_S
    while home.cluster() is not None:
        for agent in map(_Agent, home.adb_statuses()):
            status = agent.read()
            if status.complaint:
                raise status.complaint.error()
            if status.server:
                return agent
        if time.monotonic() >= give_up:
            break
        time.sleep(RETRY_S)
    raise _no_agent(home.path)


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
    seen = process.stderr.read().strip() if process.stderr else ""
    return PhoneUnavailable(f"starting a virtual phone {profile}", seen, "see the line before")
