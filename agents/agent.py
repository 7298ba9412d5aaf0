"""The agent of one host: registers, asks for work, runs it, hands in outcomes.

It waits by awaiting: while a run is measured nothing here turns, apart from one question to the
controller every few seconds, which renews the run's lease.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from agents.link import ControllerAway, ControllerLink
from agents.outbox import Outbox
from agents.transports.protocol import Transport
from controller.contracts.device import Agent, Device, DeviceKind, Registration
from controller.contracts.errors import UnknownAgent, UnknownAttempt
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


class HostAgent:
    """One a host; `serve` is its life."""

    def __init__(self, parts: AgentParts) -> None:
        self._parts = parts
        self._devices = {device.id: device for device in parts.devices}
        self._outbox = Outbox(parts.folder / "outbox")
        self._running: dict[AttemptRef, asyncio.Task[None]] = {}
        self._side_tasks: set[asyncio.Task[None]] = set()
        self.registered = asyncio.Event()

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
            registration = Registration(agent=self._parts.identity, devices=self._parts.devices)
            await self._parts.link.register(registration)
            self.registered.set()
            while True:
                self._obey(await self._parts.link.exchange(self._question()))
        except ControllerAway:
            await asyncio.sleep(AWAY_PAUSE_S)
        except UnknownAgent as refusal:
            log.warning("%s; registering again", refusal)

    def _question(self) -> Exchange:
        identity = self._parts.identity
        return Exchange(
            agent_id=identity.id, incarnation=identity.incarnation, held=tuple(self._running)
        )

    def _obey(self, orders: Orders) -> None:
        for job in orders.run:
            if job.ref not in self._running:
                self._running[job.ref] = asyncio.create_task(self._attempt(job))
        for ref in orders.stop:
            if task := self._running.get(ref):
                task.cancel()

    async def _attempt(self, job: Job) -> None:
        started_at = self._parts.clock()
        try:
            outcome = await self._measure(job)
            report = Report(
                ref=job.ref,
                agent_id=self._parts.identity.id,
                incarnation=self._parts.identity.incarnation,
                started_at=started_at,
                outcome=outcome,
            )
            self._outbox.put(report)
            await self._hand_in(report)
        finally:
            del self._running[job.ref]

    async def _measure(self, job: Job) -> Outcome:
        device = self._devices[job.device_id]
        artefacts = self._parts.folder / "runs" / job.ref.run_id / str(job.ref.attempt)
        spec = WorkerSpec(job=job, device=device, artefact_dir=str(artefacts))
        transport = self._parts.transports[device.kind]
        try:
            artefacts.mkdir(parents=True, exist_ok=True)
            return await transport.run(spec, lambda progress: self._tell(job.ref, progress))
        except Exception as error:
            log.exception("attempt %s of run %s broke the agent", job.ref.attempt, job.ref.run_id)
            message = f"the agent could not run it: {type(error).__name__}: {error}"
            return Failure(blame=Blame.HARNESS, kind="agent", message=message)

    async def _hand_in(self, report: Report) -> None:
        """Repeat until the controller has the report, or says it never asked for it."""
        while True:
            try:
                await self._parts.link.report(report)
                break
            except ControllerAway:
                await asyncio.sleep(AWAY_PAUSE_S)
            except UnknownAttempt as refusal:
                log.error("the controller refused an outcome: %s", refusal)
                break
        self._outbox.drop(report.ref)

    def _tell(self, ref: AttemptRef, progress: Progress) -> None:
        task = asyncio.create_task(self._send(RunProgress(ref=ref, progress=progress)))
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
