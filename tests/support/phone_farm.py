"""A farm, agents with phones and their adb servers in one event loop: everything but Ray."""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import pytest

from agents.agent import AgentParts, HostAgent
from agents.attempts import phone as transport_module
from agents.attempts.on_device import LoadGenRunner
from agents.attempts.phone import PhoneRunner
from agents.health import phone as probe_module
from agents.health.phone import PhoneProbe
from agents.host.cores import exclusive_cores
from agents.inference.content import Content, cache_folder
from agents.phone_command import connected
from agents.phones.discovery import PAUSES, Pauses, Phones
from agents.phones.recovery.power_cycle import PowerCycle
from agents.remotes.adb.addresses import Address, parse_address
from agents.remotes.adb.programs import QUICK_S, Link
from agents.remotes.adb.server import PrivateServer
from agents.remotes.remote import Remote
from controller.contracts.adb_status import ADB_FOLDER, STATUS_FILE, AdbStatus
from controller.contracts.catalog import load_catalog
from controller.contracts.device import Device, DeviceKind
from controller.contracts.run import Run
from controller.contracts.wire import RunEvent
from controller.platform.atomic import write_private
from controller.runtime.clock import Clock
from controller.runtime.farm import Farm, FarmSettings
from controller.runtime.home import Cluster, Home
from controller.store.sqlite import SqliteStore
from tests.support import builders
from tests.support.forked_cli import forked
from tests.support.memory_link import MemoryLink
from tests.support.users import FarmOfUsers
from tests.support.virtual_phone import RunningPhone
from tests.support.waiting import until

CLEAN_UP_S, PATIENCE_OF_SYNC_S, RETURN_S = 4.0, 8.0, 1.0
"""Short: what hangs in these tests hangs for ever. A daemon of the old protocol, which sums each
payload, may need seconds for what the adb server has buffered of a file."""


class LoopFarm(FarmOfUsers):
    """A Farm on a real store, by the real clock, which can be moved ahead."""

    def __init__(self, home: Home) -> None:
        home.prepare()
        self.ahead_s = 0.0
        self.on_event: Callable[[RunEvent], None] = lambda _: None
        self.store = SqliteStore.open(home.store)
        self.farm = Farm(
            self.store,
            load_catalog(),
            builders.VERSION,
            FarmSettings(),
            Clock(steady=lambda: time.monotonic() + self.ahead_s),
            lambda event: self.on_event(event),
        )

    def online(self) -> dict[str, str]:
        """Return the agent of each device that is there now."""
        return {d.device.id: d.agent_id for d in self.store.fleet()[1] if d.online}

    def only_run(self) -> Run:
        (run,) = self.store.runs()
        return run


async def outlive_the_silent(farm: LoopFarm, *speaking: MemoryLink) -> None:
    """Move the clock past the leases of all agents but these, each heard after every step.

    A lease that is short by the real clock would be lost by those, too, when this process stalls.
    """
    for _ in range(5):
        farm.ahead_s += FarmSettings().lease_ttl_s / 4
        heard = [link.said.count("exchange") for link in speaking]

        def asked(heard: Sequence[int] = heard) -> bool:
            now = [link.said.count("exchange") for link in speaking]
            return all(a > b for a, b in zip(now, heard, strict=True))

        await until(asked, "they have asked for orders")
    farm.farm.tick()


def impatient(server: Address, serial: str, quick_s: float = QUICK_S) -> Link:
    return Link(server, serial, CLEAN_UP_S, PATIENCE_OF_SYNC_S, RETURN_S, quick_s)


@dataclass(frozen=True, slots=True)
class LoopAgent:
    """An agent that serves, and its phones."""

    home: Home
    folder: Path
    phones: Phones
    link: MemoryLink

    def status(self) -> AdbStatus:
        """Return what it tells the command line."""
        path = self.folder / ADB_FOLDER / STATUS_FILE
        return AdbStatus.model_validate_json(path.read_text()) if path.exists() else AdbStatus()

    def has_news(self) -> bool:
        """Tell whether it has an adb server, or says why not."""
        status = self.status()
        return bool(status.server or status.complaint)

    @property
    def server(self) -> Address:
        """Where its adb server listens."""
        return parse_address(str(self.status().server))

    async def connect(self, address: str) -> None:
        """Have its adb server connect to a phone."""
        await connected(self.server, address)

    async def cli(self, *arguments: str) -> tuple[int | None, str, str]:
        """Run the command line on its host; return exit status, standard output and error."""
        environ = {**os.environ, "BENCHFARM_HOME": str(self.home.path)}
        done = await asyncio.to_thread(forked, arguments, environ)
        return done.returncode, done.stdout.decode(), done.stderr.decode()


async def end_server(agent: LoopAgent) -> None:
    """End its adb server, which outlives an agent so that the next one finds its phones."""
    await (await PrivateServer.start(agent.folder / ADB_FOLDER)).stop()


NO_CLUSTER = "benchfarm: the farm is down; run: benchfarm up\n"
"""What the command line says of a farm whose controller is in the tests' own process."""


@asynccontextmanager
async def serving_phones(
    farm: LoopFarm,
    home: Home,
    *,
    name: str = "host-1",
    content: Content | None = None,
    through: Callable[[Remote], Remote] = lambda remote: remote,
    power_cycle: PowerCycle | None = None,
    pauses: Pauses = PAUSES,
    link_to: Callable[[Address, str], Link] = impatient,
) -> AsyncIterator[LoopAgent]:
    """Let an agent serve for a while; `through` may stand between a run and its phone."""
    home.prepare()
    # Of an instance that has no processes: the command line asks only whether a farm was started.
    cluster = Cluster(instance="none", ray_address="", dashboard_url="", temp_dir="")
    write_private(home.cluster_file, cluster.model_dump_json())
    folder = home.agent / name
    agent: HostAgent

    async def announce(devices: Sequence[Device]) -> None:
        await agent.announce(devices)

    owner = f"{name}@{home.path}"
    phones = Phones(*(owner, folder, announce, link_to), power_cycle=power_cycle, pauses=pauses)
    content = content or Content(folder / "content", cache_folder())
    run = LoadGenRunner(lambda device: through(phones.remote_of(device)), content)
    link = MemoryLink(farm)
    parts = AgentParts(
        identity=builders.agent(name),
        devices=(),
        link=link,
        runners={DeviceKind.ANDROID: PhoneRunner(run, phones)},
        folder=folder,
        on_refused=phones.leave,
        absent=phones.absent,
        probers={DeviceKind.ANDROID: PhoneProbe(phones, content)},
    )
    agent = HostAgent(parts)
    tasks = [asyncio.create_task(life) for life in (agent.serve(), phones.watch())]
    one = LoopAgent(home, folder, phones, link)
    try:
        await agent.registered.wait()
        await until(one.has_news, "the agent tells of its server")
        yield one
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


@asynccontextmanager
async def agent_with(phone: RunningPhone, home: Home) -> AsyncIterator[LoopAgent]:
    """An agent of a farm of its own that has taken a phone in, with an adb server that ends."""
    farm = LoopFarm(home)
    async with serving_phones(farm, home) as agent:
        await agent.connect(phone.address)
        await until(lambda: phone.serial in farm.online(), "taken in")
        yield agent
    await end_server(agent)
    farm.store.close()


def wait_for_nobody(monkeypatch: pytest.MonkeyPatch, folder: Path) -> None:
    """Have runs not wait for others who measure on this host: locks in a folder of their own."""
    alone = partial(exclusive_cores, lock_dir=folder / "locks")
    for user in (probe_module, transport_module):
        monkeypatch.setattr(user, "exclusive_cores", alone)
