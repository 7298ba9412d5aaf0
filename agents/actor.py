"""The agent of a host with all its parts: a detached, async actor on the controller's host, and the
main object of a separate process (agents/joined.py) on every other host."""

from __future__ import annotations

import asyncio
import logging
import os
import secrets
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import ray
import ray.util
from prometheus_client import CollectorRegistry

from agents.agent import AgentParts, HostAgent
from agents.attempts.assembly import attempt_runners
from agents.energy.meter import Meter
from agents.health.host import HostProbe
from agents.health.phone import PhoneProbe
from agents.host.clock import host_clock
from agents.host.conditions import temperatures
from agents.host.disk import shortage
from agents.host.facts import agent_id, boot_id, cpu_device, machine_id
from agents.inference.content import Content, cache_folder
from agents.inference.run_rules import in_room_of
from agents.inference.stored_files import StoredFiles
from agents.metrics import AgentMetrics
from agents.phones.discovery import Phones
from agents.phones.idle import IdleReading
from agents.phones.recovery.power_cycle import PowerCycle
from agents.ray_link import RayLink
from agents.remotes.adb.addresses import parse_address
from agents.remotes.local import LocalRemote
from agents.stacks.environments import stacks_folder
from controller.contracts.device import Agent, Device, DeviceKind
from controller.contracts.version import installed_version
from controller.metrics.exporter import Exposition, address_of, listening, serve_metrics
from controller.platform.restarting import RESTART_PAUSE_S, retried
from controller.platform.terminal import make_visible
from models.mobile.store import models_folder

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class AgentOptions:
    """Options of `agent start`; Ray keeps them for restarts of the actor."""

    home: str
    labels: dict[str, str]
    metrics_address: str
    """IP address of this host where Prometheus scrapes its metrics."""
    metrics_token: str
    """File of the token that Prometheus must send."""
    adb_servers: tuple[str, ...] = ()
    """HOST:PORT or Unix socket of adb servers started by others; without any, the agent starts its
    own."""
    cpu: bool = True
    """Whether the host itself is a device."""
    phone_power_cycle: Sequence[str] = ()
    """Words of the user's power-cycle command; see PowerCycle."""
    meter: Sequence[str] = ()
    """Words of the user's power-meter command; see Meter."""

    @property
    def machine(self) -> str:
        """The id of this machine."""
        return machine_id(Path(self.home) / "agent" / "machine-id")

    @property
    def folder(self) -> Path:
        """The agent's folder on this host."""
        return Path(self.home) / "agent" / agent_id(self.machine)

    @property
    def owner(self) -> str:
        """The marker of processes that the agent starts, here and on phones."""
        return f"{agent_id(self.machine)}@{self.home}"


class AgentActor:
    """Builds the host's agent and keeps it serving; ends the process if the agent can't go on."""

    def __init__(
        self,
        options: AgentOptions,
        connect: Callable[[], Awaitable[None]] | None = None,
        address: str | None = None,
        restart_pause_s: float = RESTART_PAUSE_S,
    ) -> None:
        """connect: see RayLink. address: of this host's node; by default that of Ray in this
        process."""
        make_visible()
        self._restarted, self._restart_pause_s = _is_restarted(), restart_pause_s
        with retried("the agent", restarted=self._restarted, pause_s=restart_pause_s):
            self._begin(options, connect, address)

    def _begin(
        self,
        options: AgentOptions,
        connect: Callable[[], Awaitable[None]] | None,
        address: str | None,
    ) -> None:
        loop = asyncio.get_running_loop()
        machine = options.machine
        exporter = listening(options.metrics_address)
        self._host = cpu_device(machine, options.labels)
        self._own = (self._host,) if options.cpu else ()
        self._there: Sequence[Device] = ()
        self._metrics = AgentMetrics()
        identity = Agent(
            id=agent_id(machine),
            incarnation=secrets.token_hex(8),
            version=installed_version(),
            host=os.uname().nodename,
            exporter=address_of(exporter),
            boot_id=boot_id(),
            address=address or ray.util.get_node_ip_address(),
        )
        self._phones = _phones_of(options, self._announce)
        self._agent = HostAgent(self._parts(options, identity, RayLink(connect)))
        idle = IdleReading(self._phones, self._host, lambda: self._there, self._metrics.read)
        token = Path(options.metrics_token).read_text()
        self._life = loop.create_task(self._agent.serve())
        self._tasks = (
            self._life,
            *map(loop.create_task, (self._phones.watch(), idle.go_on())),
            loop.create_task(serve_metrics(exporter, token, self._expose)),
        )
        for task in self._tasks:
            task.add_done_callback(self._end)

    def _parts(self, options: AgentOptions, identity: Agent, link: RayLink) -> AgentParts:
        home, folder, owner = Path(options.home), options.folder, options.owner
        content = Content(folder / "content", cache_folder(), models_folder(home))
        meter = Meter(options.meter, owner) if options.meter else None
        return AgentParts(
            identity=identity,
            devices=self._own,
            link=link,
            runners=attempt_runners(
                *(owner, folder, content, stacks_folder(home)),
                *(self._phones, self._metrics.read, meter, self._host),
            ),
            folder=folder,
            clock=host_clock(),
            metrics=self._metrics,
            on_refused=self._phones.leave,
            absent=self._phones.absent,
            shortage=partial(shortage, home),
            files=StoredFiles(models_folder(home)),
            probers={
                DeviceKind.CPU_HOST: HostProbe(LocalRemote.of(folder / "device", owner)),
                DeviceKind.ANDROID: PhoneProbe(self._phones, content),
            },
        )

    async def ready(self) -> str:
        """Wait until the controller has answered; return "", or why the agent is revoked.

        A revoked agent waits until it is admitted again. Raises the error that ended the agent
        before.
        """
        answered = asyncio.ensure_future(self._agent.answered.wait())
        await asyncio.wait({answered, self._life}, return_when=asyncio.FIRST_COMPLETED)
        if self._life.done():
            self._life.result()
        return str(self._agent.revoked or "")

    @property
    def agent_id(self) -> str:
        """The id of this host's agent."""
        return self._agent.id

    async def drain(self) -> None:
        """Finish the current runs and take no more; return when all outcomes are handed in."""
        await self._agent.drain()
        await asyncio.wait({self._life})

    async def _announce(self, phones: Sequence[Device]) -> None:
        self._there = in_room_of(self._host, phones)
        await self._agent.announce((*self._own, *self._there))

    def _expose(self) -> Exposition:
        self._metrics.read(self._host.id, temperatures())
        return Exposition(self._metrics.gauges(), CollectorRegistry())

    def _end(self, life: asyncio.Task[Any]) -> None:
        # Until the first answer of a first start, someone waits for `ready`, which raises the
        # error. At any other time nobody would notice it, and an actor that no longer serves would
        # keep its devices.
        awaited = life is self._life and not (self._restarted or self._agent.answered.is_set())
        if not awaited and not life.cancelled() and (error := life.exception()):
            log.critical("the agent can't go on", exc_info=error)
            # Whoever waits for `ready` is told in the pause; then Ray starts another.
            asyncio.get_running_loop().call_later(self._restart_pause_s, os._exit, 1)


def _is_restarted() -> bool:
    """Return whether Ray has started this actor again; False in a process that is no actor."""
    if not ray.is_initialized():  # to ask for its context would start a Ray
        return False
    context = ray.get_runtime_context()
    return bool(context.get_actor_id() and context.was_current_actor_reconstructed)


def _phones_of(
    options: AgentOptions, announce: Callable[[Sequence[Device]], Awaitable[None]]
) -> Phones:
    command = options.phone_power_cycle
    return Phones(
        options.owner,
        options.folder,
        announce,
        attached=[*map(parse_address, options.adb_servers)],
        power_cycle=PowerCycle(command) if command else None,
    )
