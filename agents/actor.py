"""The agent as Ray runs it: one detached, async actor a host."""

from __future__ import annotations

import asyncio
import logging
import os
import secrets
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from prometheus_client import CollectorRegistry

from agents.agent import AgentParts, HostAgent
from agents.android.content import Content, cache_folder
from agents.android.idle import IdleReading
from agents.android.on_device import OnDeviceRun
from agents.android.phones import Phones
from agents.android.transport import PhoneTransport
from agents.host.conditions import temperatures
from agents.host.facts import agent_id, cpu_device, machine_id
from agents.host.transport import CpuHost, host_transport
from agents.metrics import AgentMetrics
from agents.pairing.transport import alternating
from agents.ray_link import RayLink
from agents.stacks.environments import stacks_folder
from controller.contracts.device import Agent, Device, DeviceKind
from controller.contracts.version import installed_version
from controller.metrics.exporter import Exposition, address_of, listening, serve_metrics

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class AgentOptions:
    """What `agent start` was told; kept by Ray for every restart of the actor."""

    home: str
    labels: dict[str, str]
    metrics_address: str
    """IP address of this host on which Prometheus finds its metrics."""
    metrics_token: str
    """File of the token that it has to show."""

    @property
    def machine(self) -> str:
        """The id of this machine."""
        return machine_id(Path(self.home) / "agent" / "machine-id")


class AgentActor:
    """Builds the host's agent and keeps it serving; an agent that can't go on ends the process."""

    def __init__(self, options: AgentOptions) -> None:
        loop = asyncio.get_running_loop()
        machine = options.machine
        name = agent_id(machine)
        exporter = listening(options.metrics_address)
        identity = Agent(
            id=name,
            incarnation=secrets.token_hex(8),
            version=installed_version(),
            host=os.uname().nodename,
            exporter=address_of(exporter),
        )
        folder = Path(options.home) / "agent" / name
        owner = f"{name}@{options.home}"
        self._host = cpu_device(machine, options.labels)
        self._there: Sequence[Device] = ()
        self._metrics = AgentMetrics()
        self._phones = Phones(owner, folder, self._announce)
        stacks = stacks_folder(Path(options.home))
        content = Content(folder / "content", cache_folder())
        self._agent = HostAgent(
            AgentParts(
                identity=identity,
                devices=(self._host,),
                link=RayLink(),
                transports={
                    DeviceKind.CPU_HOST: CpuHost(host_transport(owner, folder, content, stacks)),
                    DeviceKind.ANDROID: PhoneTransport(
                        alternating(OnDeviceRun(self._phones.remote_of, content)),
                        self._phones,
                        self._metrics.read,
                    ),
                },
                folder=folder,
                metrics=self._metrics,
                on_refused=self._phones.leave,
            )
        )
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

    async def ready(self) -> int:
        """Return this process's id once registered; raises what ended the agent before that."""
        registered = asyncio.ensure_future(self._agent.registered.wait())
        await asyncio.wait({registered, self._life}, return_when=asyncio.FIRST_COMPLETED)
        if self._life.done():
            self._life.result()
        return os.getpid()

    async def _announce(self, phones: Sequence[Device]) -> None:
        self._there = phones
        await self._agent.announce((self._host, *phones))

    def _expose(self) -> Exposition:
        self._metrics.read(self._host.id, temperatures())
        return Exposition(self._metrics.gauges(), CollectorRegistry())

    def _end(self, life: asyncio.Task[Any]) -> None:
        # Before it has registered, `ready` raises; after that nobody looks, and an actor that no
        # longer serves would sit on its leases: Ray starts another.
        broken = not life.cancelled() and (life is self._life or life.exception())
        if self._agent.registered.is_set() and broken:
            log.critical("the agent can't go on", exc_info=life.exception())
            os._exit(1)
