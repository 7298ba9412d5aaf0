"""The agent of one host: registers, asks for work, runs it, hands in outcomes.

While a run is measured, the agent only sends a request to the controller every few seconds, which
renews the run's lease.
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
from typing import Final

from agents.artefacts import AgentRuns, ArtefactSender, SendingPauses
from agents.attempts.protocol import AttemptRunner
from agents.health.prober import Prober
from agents.health.probing import Probing
from agents.held_up import HeldUpAttempts
from agents.host.disk import out_of_room
from agents.host.provenance import with_provenance
from agents.link import TROUBLES, ControllerAway, ControllerFailed, ControllerLink, admitted
from agents.metrics import AgentMetrics
from agents.outbox import Outbox
from controller.contracts.device import (
    AbsentDevice,
    Agent,
    Device,
    DeviceKind,
    DeviceState,
    RefusedDevice,
    Registration,
)
from controller.contracts.errors import (
    AgentRevoked,
    DeviceRefused,
    PartnersAwaited,
    StoreConflict,
    StoreDamaged,
    StoreUnavailable,
    UnknownAgent,
    UnknownAttempt,
)
from controller.contracts.result import Blame, Failure, Outcome, Result
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
MOST_FAILED: Final = 3
"""How often the controller may fail to take an outcome before a failure takes its place."""


@dataclass(frozen=True, slots=True)
class AgentPauses:
    """How long an agent waits before it asks again, in seconds."""

    away_s: float = 0.5
    """Of a controller that did not answer, or that repeats itself."""
    revoked_s: float = 10.0
    """After a person has shut it out, and may let it in again."""
    progress_s: float = 1.0
    """Between two messages of progress of a run, however often its worker or phone tells."""


@dataclass(frozen=True, slots=True)
class AgentParts:
    """The parts of an agent."""

    identity: Agent
    devices: Sequence[Device]
    link: ControllerLink
    runners: Mapping[DeviceKind, AttemptRunner]
    folder: Path
    clock: Callable[[], float] = time.time
    metrics: AgentMetrics = field(default_factory=AgentMetrics)
    on_refused: Callable[[Mapping[str, DeviceRefused]], None] = lambda _: None
    """Called at each registration with the refused devices by id."""
    absent: Callable[[], Sequence[AbsentDevice]] = tuple
    """Called at each registration; returns the devices that are seen but can't be used."""
    shortage: Callable[[], str] = str
    """Called at each exchange; returns why this host can't measure anything now, else ""."""
    files: Callable[[], tuple[str, ...] | None] = lambda: None
    """Called at each exchange; returns what is in this host's store of models, None if unknown."""
    probers: Mapping[DeviceKind, Prober] = field(default_factory=dict)
    pauses: AgentPauses = field(default_factory=AgentPauses)
    sending: SendingPauses = field(default_factory=SendingPauses)


class HostAgent:
    """The agent of one host; `serve` runs it."""

    def __init__(self, parts: AgentParts) -> None:
        self._parts = parts
        self._devices = {device.id: device for device in parts.devices}
        self._known = {*self._devices}
        """Ids of all devices that were ever announced."""
        self._outbox = Outbox(parts.folder / "outbox")
        runs = AgentRuns(parts.identity.id, parts.folder)
        self._artefacts = ArtefactSender(runs, parts.link, parts.sending)
        self._running: dict[AttemptRef, asyncio.Task[None]] = {}
        self._measured: set[AttemptRef] = set()
        """Running attempts that have ended and whose outcome is being handed in."""
        self._held_up = HeldUpAttempts()
        self._probing = Probing(parts.probers)
        self._side_tasks: set[asyncio.Task[None]] = set()
        self._untold: dict[AttemptRef, Progress | None] = {}
        """Run → newest progress not yet sent, while an earlier one is being sent."""
        self._refused: dict[str, DeviceRefused] = {}
        self._news = False
        """Whether something has changed since the last registration was put together."""
        self._register_at = math.inf
        """When to register again without a change, on the monotonic clock."""
        self._shortage = ""
        """Why the controller was told that there is no device, else ""."""
        self._trouble = ""
        """Why the controller could not answer last, else ""."""
        self._leaving = False
        self._left = False
        """Whether the controller knows that this agent takes no more runs."""
        self.registered = asyncio.Event()
        self.answered = asyncio.Event()
        """Set once the controller has admitted this agent, or refused it as revoked."""
        self.revoked: AgentRevoked | None = None
        """The controller's refusal, if that was its last answer."""

    @property
    def id(self) -> str:
        """The agent's id at the controller."""
        return self._parts.identity.id

    async def drain(self) -> None:
        """Take no more runs: current ones are finished and handed in, then `serve` returns."""
        self._leaving = True
        await self._tell_devices()

    async def announce(self, devices: Sequence[Device]) -> None:
        """Announce the present devices to the controller; called when phones come and go."""
        self._devices = {}
        for device in devices:
            # Of two devices with one id the first is kept: the host itself comes before phones.
            first = self._devices.setdefault(device.id, device)
            if first != device:
                log.error("device %s is announced twice: the %s stays", device.id, first.kind)
        self._known |= self._devices.keys()
        self._parts.metrics.keep(self._devices.keys())
        await self._tell_devices()

    async def _tell_devices(self) -> None:
        self._news = True  # sent by `_converse`, unless it is sent below
        if self.registered.is_set():
            try:
                await self._register()
            except (*TROUBLES, AgentRevoked) as trouble:
                log.info("told at the next registration: %r", trouble)

    async def serve(self) -> None:
        """Serve until drained or cancelled.

        Raises VersionMismatch or SharedMachineId if the controller refuses this agent. A revoked
        agent ends its runs, and asks again from time to time.
        """
        for runner in self._parts.runners.values():
            if ended := await runner.clean():
                log.warning("ended %d processes that a former agent had left running", ended)
        for report in self._outbox.pending():
            await self._hand_in(report)
        sending = asyncio.create_task(self._artefacts.go_on())
        sending.add_done_callback(_say_why_ended)
        try:
            while not await self._converse():
                pass
        finally:
            sending.cancel()
            await asyncio.gather(sending, return_exceptions=True)
            await self._probing.stop()
            await self._stop(list(self._running))

    async def _converse(self) -> bool:
        """Exchange messages while the controller answers; return whether nothing more has to be
        sent."""
        try:
            await self._register()
            self.revoked = None
            self.registered.set()
            self.answered.set()
            while True:
                if self._is_due():
                    await self._register()
                left = self._left  # an answer under way before that may still bring a run
                question = self._question()
                orders = await self._parts.link.exchange(question)
                self._trouble = ""
                self._probing.heard(question.probed)
                if not self._obey(orders) and orders != Orders():
                    # Without a pause, the controller would repeat orders that are still being
                    # carried out.
                    await asyncio.sleep(self._parts.pauses.away_s)
                if left and not self._running:
                    return True
        except TROUBLES as trouble:
            await self._outlast(trouble)
        except UnknownAgent as refusal:
            log.warning("registering again: %s", refusal)
        except AgentRevoked as refusal:
            log.error("%s", refusal)
            self.revoked = refusal
            self.answered.set()
            await self._stop(list(self._running))
            if self._leaving:
                return True  # nothing runs here, and nobody waits for an answer
            await asyncio.sleep(self._parts.pauses.revoked_s)
        return False

    async def _outlast(self, trouble: Exception) -> None:
        """Wait before the controller is asked again; log, once as an error, what is no absence.

        Before the first answer that is raised: whoever has started this agent is told.
        """
        absent, said = isinstance(trouble, ControllerAway | StoreUnavailable), repr(trouble)
        if not (absent or self.answered.is_set()):
            raise trouble
        usual = absent or said == self._trouble
        log.log(logging.INFO if usual else logging.ERROR, "the controller can't answer: %s", said)
        self._trouble = said
        await asyncio.sleep(self._parts.pauses.away_s)

    def _is_due(self) -> bool:
        """Return whether the agent should register again."""
        changed = self._news or self._parts.shortage() != self._shortage
        return changed or time.monotonic() >= self._register_at

    async def _register(self) -> None:
        self._news = False
        leaving, shortage = self._leaving, self._parts.shortage()
        devices = () if leaving or shortage else tuple(self._devices.values())
        absent = tuple(a for a in self._parts.absent() if a.device_id not in self._devices)
        if shortage:
            away = partial(AbsentDevice, state=DeviceState.OFFLINE, why=shortage)
            absent += tuple(away(device_id=device_id) for device_id in self._devices)
        registration = Registration(
            agent=self._parts.identity,
            devices=devices,
            absent=absent,
            folder=str(self._parts.folder),
        )
        try:
            admission = await admitted(self._parts.link, registration)
        except BaseException:
            self._news = True
            raise
        if shortage and shortage != self._shortage:
            log.error("nothing can be measured on this host: %s", shortage)
        self._left, self._shortage = leaving, shortage
        again_in_s = admission.again_in_s if admission.refused else math.inf
        self._register_at = time.monotonic() + again_in_s
        refused = {one.device_id: _refusal(one, again_in_s) for one in admission.refused}
        for device_id in refused.keys() - self._refused.keys():
            log.error("%s", refused[device_id])
        self._refused = refused
        self._parts.on_refused(refused)

    def _question(self) -> Exchange:
        identity = self._parts.identity
        return Exchange(
            agent_id=identity.id,
            incarnation=identity.incarnation,
            held=tuple(self._running),
            asked_at=self._parts.clock(),
            probing=self._probing.under_way(),
            probed=self._probing.ended(),
            held_up=self._held_up.now(),
            files=self._parts.files(),
        )

    def _obey(self, orders: Orders) -> bool:
        """Start and stop what is ordered; return whether anything was new."""
        probing = self._probing.begin(orders.probe, self._devices)
        new = [j for j in orders.run if j.ref not in self._running and not self._has_left(j)]
        for job in new:
            self._running[job.ref] = asyncio.create_task(self._attempt(job))
            self._running[job.ref].add_done_callback(partial(self._ended, job.ref))
        self._tell_quiet()
        # Don't stop a run whose outcome is being handed in, nor stop a worker twice.
        measuring = self._running.keys() - self._measured
        tasks = [self._running[ref] for ref in orders.stop if ref in measuring]
        stopped = [task for task in tasks if not task.cancelling()]
        for task in stopped:
            task.cancel()
        return bool(new or stopped or probing)

    def _tell_quiet(self) -> None:
        """Tell the sender of artefacts, which must not disturb a run, whether one measures."""
        self._artefacts.quiet.say(measuring=bool(self._running.keys() - self._measured))

    def _has_left(self, job: Job) -> bool:
        """Return whether a job's device has left while the order was under way.

        The job isn't begun: the order is repeated until the device is back or the lease has
        expired.
        """
        return job.device_id in self._known - self._devices.keys()

    def _ended(self, ref: AttemptRef, task: asyncio.Task[None]) -> None:
        del self._running[ref]
        self._measured.discard(ref)
        self._tell_quiet()
        if not task.cancelled():
            task.result()

    async def _attempt(self, job: Job) -> None:
        started_at = self._parts.clock()
        outcome = await self._measure(job)
        self._measured.add(job.ref)
        self._tell_quiet()
        report = Report(
            ref=job.ref,
            agent_id=self._parts.identity.id,
            incarnation=self._parts.identity.incarnation,
            started_at=started_at,
            outcome=outcome,
        )
        try:
            self._outbox.put(report)
        except (OSError, ValueError) as error:  # a full disk, or text that can't be encoded
            log.error("an outcome is kept in memory only, the outbox failed: %s", error)
        if job.leads:  # the head keeps the files of one host of a run
            self._artefacts.put(job.ref)
        await self._hand_in(report)

    async def _measure(self, job: Job) -> Outcome:
        device = self._devices.get(job.device_id)  # a later registration may change it
        outcome = await self._run(job)
        if device and isinstance(outcome, Failure):
            outcome = outcome.model_copy(update={"environment": dict(device.facts)})
        shortage = self._parts.shortage()
        return out_of_room(outcome, shortage) if shortage else outcome

    async def _run(self, job: Job) -> Outcome:
        artefacts = self._parts.folder / "runs" / job.ref.run_id / str(job.ref.attempt)
        try:
            device = self._devices[job.device_id]
            spec = WorkerSpec(job=job, device=device, artefact_dir=str(artefacts))
            runner = self._parts.runners[device.kind]
            artefacts.mkdir(parents=True, exist_ok=True)
            outcome = await runner.run(spec, partial(self._tell, job, device))
            if not isinstance(outcome, Result):
                return outcome
            return await asyncio.to_thread(with_provenance, outcome, artefacts)
        except Exception as error:
            log.exception("attempt %s of run %s broke the agent", job.ref.attempt, job.ref.run_id)
            message = f"the agent failed to run it: {type(error).__name__}: {error}"
            return Failure(blame=Blame.HARNESS, kind="agent", message=message)
        finally:
            self._held_up.ended(job.ref)
            self._parts.metrics.ended(job.ref)

    async def _hand_in(self, report: Report) -> None:
        """Repeat until the controller has the report, or says that it never gave this attempt."""
        failed = 0
        while True:
            try:
                await self._parts.link.report(report)
                break
            except StoreDamaged as damage:  # only this run's record: other reports go on
                log.error("an outcome is sent again at the next start: %s", damage)
                return
            except (ControllerAway, StoreUnavailable, PartnersAwaited):
                await asyncio.sleep(self._parts.pauses.away_s)
            except (UnknownAttempt, StoreConflict, AgentRevoked) as refusal:
                self._outbox.refused(report, refusal)
                return
            except ControllerFailed as error:
                log.exception("the controller can't take the outcome of run %s", report.ref.run_id)
                failed += 1
                if failed == MOST_FAILED:  # else the attempt would be measured again without end
                    self._outbox.refused(report, error)
                    report = report.model_copy(update={"outcome": _unreported(error)})
                await asyncio.sleep(self._parts.pauses.away_s)
        self._outbox.drop(report.ref)

    def _tell(self, job: Job, device: Device, progress: Progress) -> None:
        self._parts.metrics.progressed(job, progress, emulated=device.emulated)
        self._held_up.progressed(job.ref, progress)
        if not job.leads:
            return
        if job.ref in self._untold:
            self._untold[job.ref] = progress
            return
        self._untold[job.ref] = None
        task = asyncio.create_task(self._send(job.ref, progress))
        self._side_tasks.add(task)
        task.add_done_callback(self._side_tasks.discard)

    async def _send(self, ref: AttemptRef, progress: Progress) -> None:
        """Send a run's progress, then after a pause the newest that has come meanwhile; older
        ones are skipped."""
        identity = self._parts.identity
        message = partial(
            RunProgress, ref=ref, agent_id=identity.id, incarnation=identity.incarnation
        )
        following: Progress | None = progress
        try:
            while following:
                try:
                    await self._parts.link.progress(message(progress=following))
                except (*TROUBLES, AgentRevoked):
                    log.info("progress of %s not delivered", ref.run_id)
                await asyncio.sleep(self._parts.pauses.progress_s)
                following, self._untold[ref] = self._untold[ref], None
        finally:
            del self._untold[ref]

    async def _stop(self, refs: Sequence[AttemptRef]) -> None:
        tasks = [self._running[ref] for ref in refs]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


def _say_why_ended(sending: asyncio.Task[None]) -> None:
    """Log why no artefacts are sent any more; that has no end of its own."""
    if not sending.cancelled() and (error := sending.exception()):
        said = "artefacts stay on this host until the agent is started again"
        log.error("%s: %r", said, error, exc_info=error)


def _unreported(error: ControllerFailed) -> Failure:
    """Return the failure that is reported in place of an outcome that can't be."""
    message = f"cannot report the outcome: {error}. It is kept in the agent's outbox."
    return Failure(blame=Blame.HARNESS, kind="report", message=message)


def _refusal(refused: RefusedDevice, again_in_s: float) -> DeviceRefused:
    return DeviceRefused(
        f"announce device {refused.device_id}",
        refused.seen,
        f"{refused.remedy} This agent asks again every {again_in_s:g} s.",
    )
