"""Virtual phones, and phones for this host's agent; done by processes of the agents' side."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Collection, Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path

from controller.contracts.errors import FarmUnavailable, UserError
from controller.contracts.processes import FARM_MARKER
from controller.runtime.home import Home
from controller.store.sqlite import SqliteStore

STOP_S = 10.0
ADB_START_S = 20.0
RETRY_S = 0.2


class PhoneUnavailable(UserError):
    """A phone that can't be started or reached."""


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
    """Have this host's agent connect to a phone; return what came of it.

    Raises PhoneUnavailable, FarmUnavailable.
    """
    server = _adb_address(home).read_text().strip()
    command = [sys.executable, "-m", "agents.transports.adb", server, address]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        facts = json.loads(done.stdout) if done.stdout else {}
        seen = facts.get("seen", done.stderr.strip()[-300:])
        raise PhoneUnavailable(
            f"connecting phone {address}", seen, facts.get("remedy", "see whether it listens there")
        )
    return done.stdout.strip()


def adb_key(home: Home) -> Path:
    """Return the public key by which this host's adb server is known to phones.

    Waits for the server, which makes the key before it listens; raises FarmUnavailable.
    """
    return _adb_address(home).parent / ".android" / "adbkey.pub"


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


def _adb_address(home: Home) -> Path:
    """Return the file that tells where this host's agent has its adb server.

    It comes a little after the agent; raises FarmUnavailable if it doesn't.
    """
    give_up = time.monotonic() + ADB_START_S
    while home.cluster() is not None:
        if addresses := home.adb_addresses():
            return addresses[0]
        if time.monotonic() >= give_up:
            break
        time.sleep(RETRY_S)
    tried = f"looking for the adb server of {home.path}"
    raise FarmUnavailable(tried, "no agent with one is up here", "run: benchfarm up")


def _not_started(profile: str, process: subprocess.Popen[str]) -> PhoneUnavailable:
    seen = process.stderr.read().strip() if process.stderr else ""
    return PhoneUnavailable(f"starting a virtual phone {profile}", seen, "see the line before")
