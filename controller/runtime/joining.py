"""The supervisor of a joined host: keeps a Ray node and an agent running in another host's farm.

Ray's node ends when it has lost its head, and does not come back; nor would the agent. Their
processes carry a marker that only depends on the home, so that whatever a former supervisor has
left can be found and ended.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
import os
import time
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psutil

from controller.contracts.errors import FarmUnavailable, UserError
from controller.platform.atomic import write_private
from controller.platform.locks import exclusive_now, is_locked
from controller.platform.processes import FARM_MARKER, end_marked
from controller.platform.programs import python_module
from controller.runtime import cluster as clusters
from controller.runtime.addresses import Address
from controller.runtime.home import Cluster, Home
from controller.runtime.supervising import Supervision, end_of_one

RETRY_S = 1.0
"""Pause between tries to reach the head, and before a restart."""
CONNECT_S = 2.0
START_S = 150.0
"""How long a node may take to start, and then an agent to tell of its registration."""
GRACE_S = 5.0
REFUSED = 2
"""Exit status of an agent that the controller refuses."""
WRONG_TOKEN = b"InvalidAuthToken"
"""What Ray logs of a token that the head refuses."""
REMEDY = "Run `benchfarm down` first."


@dataclass(frozen=True, slots=True)
class Joining:
    """The farm to join, and this host's options."""

    head: Address
    labels: dict[str, str]
    metrics_address: str | None
    """None for this host's address on the way to the head."""
    adb_servers: tuple[str, ...]
    cpu: bool
    reconnect_timeout_s: int
    """How long node and agent live on without the head; useful if the head has Redis."""
    phone_power_cycle: tuple[str, ...] = ()
    meter: tuple[str, ...] = ()


def instance_of(home: Home) -> str:
    """Return the marker of a joined host's processes; the same at every start."""
    return f"joined-{hashlib.sha256(os.fsencode(home.path)).hexdigest()[:16]}"


@contextmanager
def sole_supervisor(home: Home) -> Iterator[None]:
    """Hold the lock of a home's only supervisor.

    Raises UserError if it is taken, or if the home has a farm of its own that is up.
    """
    tried = f"join a farm from {home.path}"
    with _supervision(
        home, tried, "this host has joined already, or `benchfarm up` is at work here"
    ):
        cluster = home.cluster()
        if cluster and cluster.instance != instance_of(home) and clusters.is_alive(cluster):
            raise UserError(tried, "a farm of its own is up here", REMEDY)
        yield


@contextmanager
def no_supervisor(home: Home) -> Iterator[None]:
    """Keep supervisors out of a home while its own farm is started.

    Raises UserError if there is one, even if it waits for its head or has left its node running.
    """
    tried, seen = f"start a farm in {home.path}", "this host has joined another farm"
    with _supervision(home, tried, f"{seen}, or waits for that farm's head"):
        cluster = home.cluster()
        if cluster and cluster.instance == instance_of(home) and clusters.is_alive(cluster):
            raise UserError(tried, seen, REMEDY)
        yield


def waits_for_head(home: Home) -> bool:
    """Return whether a supervisor of a home without a farm is at work, and not `up`."""
    return is_locked(_lock_of(home)) and not is_locked(home.up_lock)


def _lock_of(home: Home) -> Path:
    return home.agent / "supervisor.lock"


@contextmanager
def _supervision(home: Home, tried: str, taken: str) -> Iterator[None]:
    """Hold a home's lock; raises UserError with the reason `taken` if it is held."""
    home.agent.mkdir(parents=True, exist_ok=True)
    with exclusive_now(_lock_of(home)) as free:
        if not free:
            raise UserError(tried, taken, REMEDY)
        yield


async def supervise(
    home: Home, joining: Joining, say: Callable[[str], None], retry_s: float = RETRY_S
) -> None:
    """Keep node and agent running until SIGTERM or SIGINT; a second one ends runs at once.

    say: called with a line for each event. Raises FarmUnavailable if the controller refuses this
    agent.
    """
    supervision = Supervision(say)
    supervision.hear()
    supervisor = _Supervisor(home, joining, say, supervision.stop, supervision.signals)

    async def live_once() -> float:
        try:
            lived_s = await supervisor.live_once()
        except OSError as error:  # such as a full disk
            seen = error.strerror or error
            supervision.say_once(f"this host cannot join now: {seen}; see {home.path}")
            return 0.0
        supervision.say_once("")
        return lived_s

    await supervision.go_on(live_once, retry_s)


@dataclass(slots=True)
class _Supervisor:
    home: Home
    joining: Joining
    say: Callable[[str], None]
    stop: asyncio.Task[None]
    signals: asyncio.Queue[None]
    start_s: float = START_S

    async def live_once(self) -> float:
        """Wait for the head, start node and agent, and end both when one ends or this is to stop.

        Returns the seconds for which both ran.
        """
        await self._end()
        if former := self.home.cluster():  # of a supervisor that was killed
            clusters.remove_temp_dir(former.temp_dir)
        address = await self._way_to_head()
        if address is None:
            return 0.0
        temp_dir = clusters.new_temp_dir()
        instance = instance_of(self.home)
        cluster = Cluster(
            instance=instance,
            ray_address=str(self.joining.head),
            dashboard_url="",
            temp_dir=temp_dir,
        )
        try:
            write_private(self.home.cluster_file, cluster.model_dump_json())
            return await self._node_and_agent(address, temp_dir)
        finally:
            await self._end()
            clusters.remove_temp_dir(temp_dir)
            self.home.cluster_file.unlink(missing_ok=True)

    async def _end(self) -> None:
        marked = (FARM_MARKER, instance_of(self.home))
        await asyncio.to_thread(end_marked, *marked, GRACE_S, clusters.is_rays)

    async def _way_to_head(self) -> str | None:
        """Wait for the head; return this host's address, or None if this is to stop."""
        waited = False
        while not self.stop.done():
            with suppress(OSError, TimeoutError):
                head = self.joining.head
                async with asyncio.timeout(CONNECT_S):
                    _, writer = await asyncio.open_connection(head.host, head.port)
                writer.close()
                return head.own_address()
            if not waited:
                self.say(f"waiting for the head at {self.joining.head}")
            waited = True
            await asyncio.wait({self.stop}, timeout=RETRY_S)
        return None

    async def _node_and_agent(self, address: str, temp_dir: str) -> float:
        head = str(self.joining.head)
        join = ("--block", f"--address={head}", f"--node-ip-address={address}")
        command = clusters.node_command(temp_dir, clusters.node_ports())
        log_start = self._node_log.stat().st_size if self._node_log.exists() else 0
        node = await self._start("ray-node", *command, *join)
        # It gets ready while the node starts, of which the end of its input tells.
        python = python_module("agents.joined", head, address)
        agent = await self._start("agent", *python, hears=True)
        if agent.stdin:
            agent.stdin.write(self._options(address))
        try:
            return await self._watch(node, agent, Path(temp_dir), log_start)
        finally:
            await asyncio.gather(_ended(node), _ended(agent))

    @property
    def _node_log(self) -> Path:
        return self.home.logs / "ray-node.log"

    async def _watch(
        self,
        node: asyncio.subprocess.Process,
        agent: asyncio.subprocess.Process,
        temp_dir: Path,
        log_start: int,
    ) -> float:
        node_ended = asyncio.create_task(node.wait())
        agent_ended = asyncio.create_task(agent.wait())
        if not await self._until_up(node_ended, temp_dir):
            if not self.stop.done():
                require_right_token(self.joining.head, self._node_log, log_start)
                self.say(f"Ray's node did not start; see {self._node_log}")
            return 0.0
        began = time.monotonic()
        if agent.stdin:
            agent.stdin.close()
        heard = asyncio.create_task(self._hear(agent))
        unheard = asyncio.create_task(_unheard(heard, self.start_s))
        ended = {node_ended, agent_ended, asyncio.create_task(_end_of_raylet(node.pid))}
        await asyncio.wait({*ended, unheard, self.stop}, return_when=asyncio.FIRST_COMPLETED)
        lived_s = time.monotonic() - began
        if self.stop.done():
            await self._drain(agent, ended)
        elif agent_ended.done() and agent_ended.result() == REFUSED:
            raise self._refusal(await heard)
        elif unheard.done():
            lived_s = 0.0
            late = f"no agent has joined within {self.start_s:g} s"
            self.say(f"{late}: it is started again with Ray's node; see {self.home.logs}")
        else:
            who = "the agent" if agent_ended.done() else "Ray's node"
            self.say(f"{who} ended and is started again; see {self.home.logs}")
        for task in (heard, unheard, *ended):
            task.cancel()
        return lived_s

    def _refusal(self, said: Mapping[str, str]) -> FarmUnavailable:
        """Return the error for the controller's refusal, with its reason and remedy."""
        return FarmUnavailable(
            f"join the farm at {self.joining.head}",
            said.get("seen", "the controller refuses this agent"),
            said.get("remedy", f"See {self.home.logs / 'agent.log'}."),
        )

    async def _until_up(self, node_ended: asyncio.Task[int], temp_dir: Path) -> bool:
        """Wait until the node has joined; return False if it ended, takes too long, or this is to
        stop."""
        latest_s = time.monotonic() + self.start_s
        while not (self.stop.done() or node_ended.done() or time.monotonic() > latest_s):
            if (temp_dir / "ray_current_cluster").exists():
                return True
            await asyncio.wait({self.stop, node_ended}, timeout=0.1)
        return False

    async def _drain(
        self, agent: asyncio.subprocess.Process, ended: Collection[asyncio.Task[Any]]
    ) -> None:
        self.say("draining: what runs is finished first; interrupt again to end it now")
        with suppress(ProcessLookupError):
            agent.terminate()
        hurry = asyncio.create_task(self.signals.get())
        await asyncio.wait({*ended, hurry}, return_when=asyncio.FIRST_COMPLETED)
        hurry.cancel()

    async def _hear(self, agent: asyncio.subprocess.Process) -> Mapping[str, str]:
        """Read an agent's message about its registration; report it, and return it."""
        line = await agent.stdout.readline() if agent.stdout else b""
        said: dict[str, str] = json.loads(line) if line else {}
        if "agent_id" in said:
            joined = f"agent {said['agent_id']} has joined the farm at {self.joining.head}"
            self.say(said["revoked"] or joined)
        return said

    def _options(self, address: str) -> bytes:
        said = {
            "home": str(self.home.path),
            "labels": self.joining.labels,
            "metrics_address": self.joining.metrics_address or address,
            "metrics_token": str(self.home.metrics_token),
            "adb_servers": self.joining.adb_servers,
            "cpu": self.joining.cpu,
            "phone_power_cycle": self.joining.phone_power_cycle,
            "meter": self.joining.meter,
        }
        return json.dumps(said).encode() + b"\n"

    async def _start(
        self, name: str, *command: str, hears: bool = False
    ) -> asyncio.subprocess.Process:
        """Start a program in a session of its own, which a Ctrl-C does not reach."""
        environment = clusters.node_environment(self.home, instance_of(self.home))
        environment[clusters.RECONNECT_TIMEOUT] = str(self.joining.reconnect_timeout_s)
        nothing, pipe = asyncio.subprocess.DEVNULL, asyncio.subprocess.PIPE
        with (self.home.logs / f"{name}.log").open("ab") as log:
            return await asyncio.create_subprocess_exec(
                *command,
                env=environment,
                stdin=pipe if hears else nothing,
                stdout=pipe if hears else log,
                stderr=log,
                start_new_session=True,
            )


def require_right_token(head: Address, log: Path, start: int) -> None:
    """Raise UserError if a node that did not start says that its token is wrong.

    start: byte of the log at which this start of the node began.
    """
    with log.open("rb") as file:
        file.seek(start)
        if WRONG_TOKEN in file.read():
            remedy = "Copy the head's ray-token anew: a farm in another BENCHFARM_HOME has another."
            raise UserError(f"join the farm at {head}", "the head refuses the token", remedy)


async def _end_of_raylet(node: int) -> None:
    """Wait until the raylet of `ray start` has ended.

    A raylet that ends by itself, as it does when one of its own agents was killed, may do so with
    exit status 0: then `ray start --block` goes on as if nothing were missing.
    """
    with suppress(psutil.NoSuchProcess):
        children = psutil.Process(node).children()
        if raylets := [child.pid for child in children if child.name() == "raylet"]:
            await end_of_one(raylets)


async def _unheard(heard: asyncio.Task[Any], seconds: float) -> None:
    """Wait until nothing was heard for so long; never return if it was."""
    done, _ = await asyncio.wait({heard}, timeout=seconds)
    if done:
        await asyncio.Event().wait()


async def _ended(process: asyncio.subprocess.Process) -> None:
    """End a program; the marker finds what it leaves behind."""
    with suppress(ProcessLookupError):
        process.terminate()
    try:
        async with asyncio.timeout(GRACE_S):
            await process.wait()
    except TimeoutError:
        # Not awaited: asyncio waits for its pipes, too, which what it leaves behind may hold open.
        process.kill()
