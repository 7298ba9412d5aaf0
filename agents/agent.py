"""The agent of one host: registers, asks for work, runs it, hands in outcomes.

It waits by awaiting: while a run is measured nothing here turns, apart from one question to the
controller every few seconds, which renews the run's lease.
"""

from __future__ import annotations

import asyncio
import logging
import math
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

from agents.link import ControllerAway, ControllerLink
from agents.metrics import AgentMetrics
from agents.outbox import Outbox
from agents.transports.protocol import Transport
from controller.contracts.device import Agent, Device, DeviceKind, HeldDevice, Registration
from controller.contracts.errors import (
    DeviceHeldElsewhere,
    StoreConflict,
    StoreUnavailable,
    UnknownAgent,
    UnknownAttempt,
)
from controller.contracts.result import Blame, Failure, Outcome
from controller.contracts.wire import (
    AttemptRef,
    Exchange,
    Job,
    Orders,
    Progress,
    Report,
    RunProgress,
    WorkerSpec,
)

log = logging.getLogger(__name__)
AWAY_PAUSE_S = 0.5


@dataclass(frozen=True, slots=True)
class AgentParts:
    """What an agent is made of."""

    identity: Agent
    devices: Sequence[Device]
    link: ControllerLink
    transports: Mapping[DeviceKind, Transport]
    folder: Path
    clock: Callable[[], float] = time.time
    metrics: AgentMetrics = field(default_factory=AgentMetrics)
    on_refused: Callable[[Mapping[str, DeviceHeldElsewhere]], None] = lambda _: None
    """Called with what the controller refuses, by device id, each time the agent registers."""


class HostAgent:
    """One a host; `serve` is its life."""

    def __init__(self, parts: AgentParts) -> None:
        self._parts = parts
        self._devices = {device.id: device for device in parts.devices}
        self._outbox = Outbox(parts.folder / "outbox")
        self._running: dict[AttemptRef, asyncio.Task[None]] = {}
        self._measured: set[AttemptRef] = set()
        """Running attempts whose outcome is being handed in."""
        self._side_tasks: set[asyncio.Task[None]] = set()
        self._refused: dict[str, DeviceHeldElsewhere] = {}
        self._register_at = math.inf
        """On the monotonic clock: when the controller is to be told again of what there is."""
        self.registered = asyncio.Event()

    async def announce(self, devices: Sequence[Device]) -> None:
        """Tell the controller of the devices there are now; called when phones come and go."""
        self._devices = {device.id: device for device in devices}
        self._parts.metrics.keep(self._devices.keys())
        if self.registered.is_set():
            try:
                await self._register()
            except (ControllerAway, StoreUnavailable) as trouble:
                log.info("told at the next registration: %r", trouble)
                self._register_at = time.monotonic()

    async def serve(self) -> None:
        """Serve until cancelled; raises VersionMismatch if the controller turns this agent away."""
        for transport in self._parts.transports.values():
            if ended := await transport.clean():
                log.warning("ended %d processes that a former agent had left running", ended)
        for report in self._outbox.pending():
            await self._hand_in(report)
        try:
            while True:
                await self._converse()
        finally:
            await self._stop(list(self._running))

    async def _converse(self) -> None:
        try:
            await self._register()
            self.registered.set()
            while True:
                orders = await self._parts.link.exchange(self._question())
                if not self._obey(orders) and orders != Orders():
                    # The controller repeats, without a pause, what is still being done.
                    await asyncio.sleep(AWAY_PAUSE_S)
                if time.monotonic() >= self._register_at:
                    await self._register()
        except (ControllerAway, StoreUnavailable) as trouble:
            log.info("the controller can't answer: %r", trouble)
            await asyncio.sleep(AWAY_PAUSE_S)
        except UnknownAgent as refusal:
            log.warning("%s; registering again", refusal)

    async def _register(self) -> None:
        devices = tuple(self._devices.values())
        registration = Registration(agent=self._parts.identity, devices=devices)
        admission = await self._parts.link.register(registration)
        again_in_s = admission.again_in_s if admission.refused else math.inf
        self._register_at = time.monotonic() + again_in_s
        refused = {held.device_id: _refusal(held, again_in_s) for held in admission.refused}
        for device_id in refused.keys() - self._refused.keys():
            log.error("%s", refused[device_id])
        self._refused = refused
        self._parts.on_refused(refused)

    def _question(self) -> Exchange:
        identity = self._parts.identity
        return Exchange(
            agent_id=identity.id, incarnation=identity.incarnation, held=tuple(self._running)
        )

    def _obey(self, orders: Orders) -> bool:
        """Start and stop what is ordered; False if all of it was under way already."""
        new = [job for job in orders.run if job.ref not in self._running]
        for job in new:
            self._running[job.ref] = asyncio.create_task(self._attempt(job))
            self._running[job.ref].add_done_callback(partial(self._ended, job.ref))
        # An outcome on its way is not stopped, nor twice a worker whose end is being waited for.
        measuring = self._running.keys() - self._measured
        tasks = [self._running[ref] for ref in orders.stop if ref in measuring]
        stopped = [task for task in tasks if not task.cancelling()]
        for task in stopped:
            task.cancel()
        return bool(new or stopped)

    def _ended(self, ref: AttemptRef, task: asyncio.Task[None]) -> None:
        del self._running[ref]
        self._measured.discard(ref)
        if not task.cancelled():
            task.result()

    async def _attempt(self, job: Job) -> None:
        started_at = self._parts.clock()
        outcome = await self._measure(job)
        self._measured.add(job.ref)
        report = Report(
            ref=job.ref,
            agent_id=self._parts.identity.id,
            incarnation=self._parts.identity.incarnation,
            started_at=started_at,
            outcome=outcome,
        )
        try:
            self._outbox.put(report)
        except OSError as error:
            log.error("an outcome is kept in memory only, the outbox failed: %s", error)
        await self._hand_in(report)

    async def _measure(self, job: Job) -> Outcome:
        artefacts = self._parts.folder / "runs" / job.ref.run_id / str(job.ref.attempt)
        try:
            device = self._devices[job.device_id]
            spec = WorkerSpec(job=job, device=device, artefact_dir=str(artefacts))
            transport = self._parts.transports[device.kind]
            artefacts.mkdir(parents=True, exist_ok=True)
            return await transport.run(spec, partial(self._tell, job))
        except Exception as error:
            log.exception("attempt %s of run %s broke the agent", job.ref.attempt, job.ref.run_id)
            message = f"the agent could not run it: {type(error).__name__}: {error}"
            return Failure(blame=Blame.HARNESS, kind="agent", message=message)
        finally:
            self._parts.metrics.ended(job.ref)

    async def _hand_in(self, report: Report) -> None:
        """Repeat until the controller has the report, or says it never asked for it."""
        while True:
            try:
                await self._parts.link.report(report)
                break
            except (ControllerAway, StoreUnavailable):
                await asyncio.sleep(AWAY_PAUSE_S)
            except (UnknownAttempt, StoreConflict) as refusal:
                log.error("the controller refused an outcome: %s", refusal)
                break
        self._outbox.drop(report.ref)

    def _tell(self, job: Job, progress: Progress) -> None:
        self._parts.metrics.progressed(job, progress)
        task = asyncio.create_task(self._send(RunProgress(ref=job.ref, progress=progress)))
        self._side_tasks.add(task)
        task.add_done_callback(self._side_tasks.discard)

    async def _send(self, progress: RunProgress) -> None:
        try:
            await self._parts.link.progress(progress)
        except ControllerAway:
            log.info("progress of %s not delivered", progress.ref.run_id)

    async def _stop(self, refs: Sequence[AttemptRef]) -> None:
        tasks = [self._running[ref] for ref in refs]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


def _refusal(held: HeldDevice, again_in_s: float) -> DeviceHeldElsewhere:
    return DeviceHeldElsewhere(
        f"announcing device {held.device_id}",
        f"agent {held.agent_id} on host {held.host} has it",
        f"take it away there, or end that agent; this one asks again every {again_in_s:g} s",
    )
