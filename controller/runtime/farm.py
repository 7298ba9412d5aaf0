"""The controller's core: the farm's state and rules, without Ray, sockets or threads.

This module has the calls of agents, the administrator's calls about devices and agents, and time.
Users' calls about sweeps are in `sweeps`, runs in `open_runs`, agents and devices in `roster`.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from controller.contracts.administration import ChangedDevice
from controller.contracts.catalog import Catalog
from controller.contracts.device import Admission, Agent, DeviceStatus, Hold, Registration
from controller.contracts.errors import (
    JoinedTwice,
    NotProbed,
    PartnersAwaited,
    SharedMachineId,
    UnknownAgent,
    UnknownAttempt,
    UserError,
    VersionMismatch,
)
from controller.contracts.quota import Quota
from controller.contracts.result import Blame, Failure, Outcome, Result
from controller.contracts.run import Run, RunChange
from controller.contracts.wire import (
    COOL_DOWN,
    AttemptRef,
    Exchange,
    HostShare,
    Job,
    Orders,
    ProbeOrder,
    Report,
    RunEvent,
    RunProgress,
)
from controller.metrics.collector import FarmState
from controller.runtime.clock import Clock
from controller.runtime.drains import Drains
from controller.runtime.host_files import HostStores
from controller.runtime.objections import require_no_run
from controller.runtime.open_runs import Listeners, OpenRuns, RunSettings
from controller.runtime.roster import Roster
from controller.runtime.sweeps import MAX_ATTEMPTS, Sweeps
from controller.scheduling.audited import as_audited
from controller.scheduling.complete_results import as_complete
from controller.scheduling.declared_facts import with_declared_facts
from controller.scheduling.device_life import (
    DeviceEvent,
    Failed,
    Forgotten,
    Measured,
    device_status,
    is_probed,
)
from controller.scheduling.emulation import as_kept
from controller.scheduling.hosts import (
    as_run_failure,
    lost_partner,
    of_all_hosts,
    verdict_of,
)
from controller.scheduling.lifecycle import Cooled, LeaseLost, PartnerMeasured, Reported
from controller.scheduling.placement import missing
from controller.scheduling.policy import QuarantinePolicy, RetryPolicy
from controller.scheduling.program import job_of, share_of, without_job
from controller.store.protocol import Store

log = logging.getLogger(__name__)

WHY_CHARACTERS = 300


@dataclass(frozen=True, slots=True)
class FarmSettings:
    """The farm's times, in seconds, and its policies."""

    lease_ttl_s: float = 10.0
    exchange_hold_s: float = 3.0
    """How long an agent's exchange waits for something to do; also its heartbeat."""
    retry: RetryPolicy = field(default_factory=RetryPolicy)
    quarantine: QuarantinePolicy = field(default_factory=QuarantinePolicy)
    quota: Quota = field(default_factory=Quota)
    max_attempts: int = MAX_ATTEMPTS


class Farm:
    """The agents, devices and open runs, and every change of them."""

    def __init__(
        self,
        store: Store,
        catalog: Catalog,
        version: str,
        settings: FarmSettings,
        clock: Clock,
        publish: Callable[[RunEvent], None],
        observe: Callable[[Run, RunChange], None] = lambda *_: None,
    ) -> None:
        """observe: called with a run before a change and the change, once that is stored."""
        self._catalog = catalog
        self._version = version
        self._settings = settings
        self._clock = clock
        self._publish = publish
        self._roster = Roster(store, clock, settings.quarantine)
        self._runs = OpenRuns(
            store,
            catalog,
            self._roster,
            RunSettings(settings.lease_ttl_s, settings.retry),
            clock,
            Listeners(publish, observe),
        )
        self.sweeps = Sweeps(
            *(store, catalog, self._roster, self._runs, clock),
            settings.quota,
            settings.max_attempts,
        )
        self.drains = Drains(self._roster, self._runs, catalog, clock)
        self._stores = HostStores()
        self._seen = {a.agent.id: clock.steady() for a in self._roster.agents.values() if a.online}
        """When each agent was heard last (steady clock); a restart gives each a full term."""
        self._spoken: set[str] = set()
        """Agents heard since this controller started."""
        self._folders: dict[str, str | None] = {}
        """The folder of each of them."""
        # A damaged record of an agent or a device is left out: it can't end what it has leased.
        self._runs.apply(
            (run, LeaseLost()) for run in self._runs.leased() if self._is_ownerless(run)
        )

    # --- requests of agents -------------------------------------------------------------------

    def register(self, registration: Registration) -> Admission:
        """Register an agent and its devices; a restarted agent loses its former leases.

        Refuses a device that another agent has now, or whose id belongs to another device.
        Raises VersionMismatch, AgentRevoked.
        """
        agent = registration.agent
        self._roster.require_admitted(agent.id)
        if agent.version != self._version:
            raise VersionMismatch(agent.id, agent.version, self._version)
        self._require_sole(agent, registration.folder)
        objections = self._roster.refused(registration.devices, agent)
        refused = {objection.device_id for objection in objections}
        taken = [d for d in registration.devices if d.id not in refused]
        self._roster.announced(agent, taken, registration.absent)
        self._hear(agent.id)
        self._folders[agent.id] = registration.folder
        self._runs.apply(
            (run, self._loss(run, agent.id))
            for run in self._runs.leased(agent.id)
            if run.lease
            and (held := run.lease.place_of(agent.id))
            and held.incarnation != agent.incarnation
        )
        self._lose_moved(agent)
        self._runs.place()
        self._roster.answered(agent.id)
        return Admission(refused=tuple(objections), again_in_s=self._settings.lease_ttl_s)

    def exchange(self, question: Exchange) -> Orders:
        """Renew the agent's leases; return what it should run, stop and probe.

        Raises UnknownAgent if it has to register first, AgentRevoked.
        """
        agent_id = question.agent_id
        self._roster.require_admitted(agent_id)
        known = self._roster.agents.get(agent_id)
        if known is None or known.agent.incarnation != question.incarnation or not known.online:
            raise UnknownAgent(agent_id, question.incarnation)
        self._hear(agent_id)
        self._roster.asked(agent_id, question.asked_at)
        self._runs.held_up.heard(agent_id, question.held_up)
        self._stores.heard(agent_id, question.files)
        self._take_probes(question)
        leased = {
            AttemptRef(run_id=run.run_id, attempt=run.lease.number): run
            for run in self._runs.leased(agent_id)
            # A former self's lease outlives a controller that died while the agent registered.
            if run.lease and run.lease.place_of(agent_id, question.incarnation)
        }
        held = set(question.held)
        for ref in leased.keys() & held:
            self._runs.renew(leased[ref], agent_id)
        # A lease that outlives its manifests, after a restart without a plugin, expires.
        due = {
            ref: run
            for ref, run in leased.items()
            if ref not in held and not missing(run.cell, self._catalog)
        }
        return Orders(
            run=self._jobs(due, agent_id),
            stop=tuple(ref for ref in question.held if ref not in leased),
            probe=self._probes(question),
        )

    def report(self, report: Report) -> None:
        """Store an attempt's outcome; it is durable on return.

        Raises UnknownAttempt for an attempt this incarnation of the agent was never given,
        AgentRevoked, StoreDamaged, StoreConflict, and PartnersAwaited as long as another host of
        the run has not reported.
        """
        self._roster.require_admitted(report.agent_id)
        ref = report.ref
        run = self._run_of_attempt(report.agent_id, ref, report.incarnation)
        if run.attempts[ref.attempt - 1].agent_id == report.agent_id:
            self._report_lead(report, run)
        else:
            self._report_partner(report, run)
        self._runs.place()
        self._runs.require_stored(run.run_id)

    def _report_lead(self, report: Report, run: Run) -> None:
        """Take the report of an attempt's own agent."""
        ref = report.ref
        attempt = run.attempts[ref.attempt - 1]
        counted = run.lease is not None and run.lease.number == ref.attempt
        began = self._roster.by_our_clock(report.agent_id, report.started_at, attempt.leased_at)
        known = self._roster.devices.get(attempt.device_id)
        outcome = report.outcome
        if counted and isinstance(outcome, Result):
            if len(attempt.under_way) > 1:
                raise PartnersAwaited(ref.run_id, ref.attempt)
            outcome = of_all_hosts(outcome, attempt, self._host_names())
        elif isinstance(outcome, Failure) and attempt.partners:
            outcome = as_run_failure(outcome, self._host_name(report.agent_id))
        outcome = as_complete(outcome, run.cell, self._catalog.ranked_by(run.cell.scenario))
        outcome = with_declared_facts(outcome, self._catalog.own_facts)
        outcome = as_audited(as_kept(outcome, known.device if known else None), run)
        self._runs.apply([(run, Reported(ref.attempt, outcome, began))])
        if counted and known:
            self._judge(attempt.device_id, outcome)

    def _report_partner(self, report: Report, run: Run) -> None:
        """Take the report of a host that trained beside the lead: its failure is the run's."""
        ref, outcome, lease = report.ref, report.outcome, run.lease
        if lease is None or lease.number != ref.attempt:
            return  # the attempt has ended, of which this is a consequence
        if isinstance(outcome, Result):
            done = PartnerMeasured(ref.attempt, report.agent_id, verdict_of(outcome))
            self._runs.apply([(run, done)], quietly=True)
            self._runs.release(run, report.agent_id)
        else:
            failure = as_run_failure(outcome, self._host_name(report.agent_id))
            self._runs.apply([(run, Reported(ref.attempt, failure, lease.leased_at))])
            if place := lease.place_of(report.agent_id):
                self._judge(place.device_id, failure)

    def _jobs(self, leased: Mapping[AttemptRef, Run], agent_id: str) -> tuple[Job, ...]:
        """Return the jobs of an agent's leased runs; a run of which none can be made fails."""
        jobs: list[Job] = []
        failed: list[tuple[Run, Reported]] = []
        for ref, run in leased.items():
            try:
                jobs.append(job_of(run, self._catalog, self._share(run, agent_id)))
            except Exception as error:  # whatever it is, the agent's other runs go on
                log.exception("run %s fails, since no job can be made of it", run.run_id)
                begun = run.attempts[ref.attempt - 1].leased_at
                failed.append((run, Reported(ref.attempt, without_job(error), begun)))
        if failed:
            self._runs.apply(failed)
            self._runs.is_placing = True  # in the next tick, which wakes agents without orders
        return tuple(jobs)

    def _share(self, run: Run, agent_id: str) -> HostShare | None:
        lease = run.lease
        return share_of(run.run_id, lease, agent_id, self._roster.agents) if lease else None

    def _loss(self, run: Run, agent_id: str) -> LeaseLost | Reported:
        """Return the event of a run whose lease an agent has lost."""
        lease = run.lease
        if lease is None or lease.agent_id == agent_id:
            return LeaseLost()
        failure = lost_partner(self._host_name(agent_id))
        return Reported(lease.number, failure, lease.leased_at)

    def _host_names(self) -> dict[str, str]:
        return {id_: known.agent.host for id_, known in self._roster.agents.items()}

    def _host_name(self, agent_id: str) -> str:
        return self._host_names().get(agent_id, agent_id)

    def require_admitted(self, agent_id: str) -> None:
        """Raise AgentRevoked if an agent is shut out."""
        self._roster.require_admitted(agent_id)

    def run_led_by(self, agent_id: str, ref: AttemptRef) -> Run:
        """Return the run of an attempt; raises UnknownAttempt unless this agent led it, in
        whichever incarnation."""
        run = self._run_of_attempt(agent_id, ref)
        if run.attempts[ref.attempt - 1].agent_id != agent_id:
            raise UnknownAttempt(ref.run_id, ref.attempt)
        return run

    def _run_of_attempt(
        self, agent_id: str, ref: AttemptRef, incarnation: str | None = None
    ) -> Run:
        """Return the run of an attempt; raises UnknownAttempt unless this agent was given it.

        incarnation: which of the agent's it has to be; None: any.
        """
        run = self._runs.get(ref.run_id)
        attempts = run.attempts if run else ()
        if run is None or not any(
            a.number == ref.attempt and a.was_given_to(agent_id, incarnation) for a in attempts
        ):
            raise UnknownAttempt(ref.run_id, ref.attempt)
        return run

    def measures_on(self, host: str) -> bool:
        """Return whether an agent on a host has a run now."""
        agents = self._roster.agents
        leases = (run.lease for run in self._runs.leased() if run.lease)
        held = (agents.get(place.agent_id) for lease in leases for place in lease.places)
        return any(known is not None and known.agent.host == host for known in held)

    def progress(self, progress: RunProgress) -> None:
        """Pass a run's progress to its watchers; store only whether it cools down.

        Ignores what is late, or not of a lease that this incarnation of the agent leads. Raises
        AgentRevoked.
        """
        ref, said = progress.ref, progress.progress
        self._roster.require_admitted(progress.agent_id)
        run = self._runs.open(ref.run_id)
        lease = run.lease if run and run.lease and run.lease.number == ref.attempt else None
        if run and lease and lease.place_of(progress.agent_id, progress.incarnation) is lease:
            self._runs.apply([(run, Cooled(ref.attempt, said.phase == COOL_DOWN))], quietly=True)
            self._publish(RunEvent.of(run, said))

    def _is_ownerless(self, run: Run) -> bool:
        lease, roster = run.lease, self._roster
        return lease is not None and not all(
            place.agent_id in roster.agents and place.device_id in roster.devices
            for place in lease.places
        )

    def _hear(self, agent_id: str) -> None:
        self._seen[agent_id] = self._clock.steady()
        self._spoken.add(agent_id)

    def _require_sole(self, agent: Agent, folder: str | None) -> None:
        """Raise SharedMachineId if another host, boot or home was just heard under this id."""
        if agent.id not in self._seen:
            return
        known = self._roster.agents[agent.id].agent
        again_in_s = self._seen[agent.id] + self._settings.lease_ttl_s - self._clock.steady()
        # A boot that only the store tells of most likely ended with the former controller.
        boots = {known.boot_id, agent.boot_id} - {None} if agent.id in self._spoken else set()
        if again_in_s > 0 and (known.host != agent.host or len(boots) > 1):
            raise SharedMachineId(agent.id, agent.boot, known.boot, again_in_s)
        other = self._folders.get(agent.id)
        if again_in_s > 0 and folder and other and folder != other:
            raise JoinedTwice(agent.id, folder, other, again_in_s)

    def _lose_moved(self, agent: Agent) -> None:
        """End the leases of other agents on devices that this agent now has."""

        def moved(run: Run) -> str | None:
            places = run.lease.under_way if run.lease else ()
            owner = self._roster.devices
            found = (p for p in places if owner[p.device_id].agent_id == agent.id != p.agent_id)
            return next((place.agent_id for place in found), None)

        leased = [(run, moved(run)) for run in self._runs.leased()]
        self._runs.apply((run, self._loss(run, former)) for run, former in leased if former)

    def _judge(self, device_id: str, outcome: Outcome) -> None:
        """Count an outcome for or against its device."""
        if isinstance(outcome, Result):
            self._roster.apply_event(device_id, Measured())
        elif outcome.blame is Blame.DEVICE:
            said = f"{outcome.kind}: {outcome.message}"
            self._roster.apply_event(device_id, Failed(" ".join(said.split())[:WHY_CHARACTERS]))

    def _take_probes(self, question: Exchange) -> None:
        for report in question.probed:
            self._roster.probed(question.agent_id, report)
        if question.probed:
            self._runs.place()

    def _probes(self, question: Exchange) -> tuple[ProbeOrder, ...]:
        """Return the probes to begin, on devices without a run."""
        begun = {*question.probing, *(report.of for report in question.probed)}
        leases = (run.lease for run in self._runs.leased(question.agent_id) if run.lease)
        used = {device_id for lease in leases for device_id in lease.device_ids}
        due = self._roster.probes_due(question.agent_id)
        return tuple(o for o in due if o not in begun and o.device_id not in used)

    # --- requests of the administrator ---------------------------------------------------------

    def find_device(self, given: str) -> str:
        """Return the id of the device that a person means; raises NotFound, UserError."""
        return self._roster.find(given)

    def apply_event(self, device_id: str, event: DeviceEvent, who: str, why: str) -> ChangedDevice:
        """Apply the administrator's event to a device; raises as Roster.apply_event does."""
        if isinstance(event, Forgotten):
            require_no_run(device_id, self._runs.on_device(device_id))
        changed = self._roster.apply_event(device_id, event, who, why)
        self._runs.place()
        status = device_status(changed, self._clock.wall(), self._runs.on_device(device_id))
        name = changed.labelled.shown
        return ChangedDevice(device=device_id, device_name=name, **dict(status))

    def require_probed(self, device_id: str) -> None:
        """Raise NotFound, or NotProbed if a probe would change nothing."""
        device = self._roster.device(device_id)
        tried, hold = f"probe device {device_id}", device.life.quarantine
        if hold is None:
            remedy = "Run `benchfarm device list` to see its state."
            raise NotProbed(tried, "it is not in quarantine", remedy)
        if not is_probed(device.life):
            remedy = f"Run `benchfarm device release {device_id}` to let it out."
            raise NotProbed(tried, f"{hold.who} put it in quarantine ({hold.why})", remedy)
        if not device.online:
            raise NotProbed(tried, "it is away", "It is probed when it is back.")

    def revoke(self, agent_id: str, who: str, why: str) -> int:
        """Shut an agent out and end its leases at once; return their number.

        Raises NotFound, and UserError if this lasts only until the controller ends.
        """
        self._roster.require_agent(agent_id)
        hold = Hold(since=self._clock.wall(), who=who, why=why)
        damage = self._roster.silent(agent_id, f"agent {agent_id} is revoked: {why}", hold)
        self._seen.pop(agent_id, None)
        doomed = self._runs.leased(agent_id)
        self._runs.apply((run, self._loss(run, agent_id)) for run in doomed)
        self._runs.place()
        if damage:
            seen = f"it is shut out only until the controller ends: {damage.reason}"
            remedy = "Run `benchfarm store check`."
            raise UserError(f"revoke agent {agent_id} for good", seen, remedy)
        return len(doomed)

    def admit(self, agent_id: str) -> None:
        """Let a revoked agent register again; raises NotFound."""
        self._roster.admit(agent_id)

    # --- time ----------------------------------------------------------------------------------

    def now(self) -> float:
        """Return the time by the farm's wall clock."""
        return self._clock.wall()

    def tick(self) -> None:
        """Mark silent agents offline; end expired leases and bookings."""
        now = self._clock.steady()
        for agent_id, seen in list(self._seen.items()):
            if seen + self._settings.lease_ttl_s <= now:
                quiet = f"agent {agent_id} has been silent for {now - seen:.0f} s"
                self._roster.silent(agent_id, quiet)
                del self._seen[agent_id]
        self._runs.apply((run, self._loss(run, id_)) for run, id_ in self._runs.expired())
        self._roster.expire()
        self._runs.place()

    def next_tick_in(self) -> float:
        """Return the seconds until something may expire, at most a lease's length."""
        if self._runs.is_placing:
            return 0.0
        now, ttl = self._clock.steady(), self._settings.lease_ttl_s
        silent = min(self._seen.values(), default=now) + ttl
        lease, booking = self._runs.next_expiry(), self._roster.next_end()
        ends = [ttl, silent - now]
        ends += [] if lease is None else [lease - now]
        ends += [] if booking is None else [booking - self._clock.wall()]
        return max(0.0, min(ends))

    # --- state ---------------------------------------------------------------------------------

    def state(self) -> FarmState:
        """Return the current agents, devices and open runs."""
        now = self._clock.wall()
        return FarmState(
            now=now,
            agents=tuple(self._roster.agents.values()),
            devices=tuple(self._roster.devices.values()),
            open_runs=tuple(self._runs),
            statuses=self._statuses(now),
        )

    def held_up(self) -> dict[str, str]:
        """Return what holds up each leased run that a process of another farm holds up."""
        return self._runs.held_up.among(self._runs.leased())

    def stored_files(self) -> dict[str, tuple[str, ...]]:
        """Return what is in the store of models of each online host that has said it."""
        return self._stores.among([id_ for id_, a in self._roster.agents.items() if a.online])

    def _statuses(self, now: float) -> dict[str, DeviceStatus]:
        leases = ((run, run.lease) for run in self._runs.leased() if run.lease)
        on = {device_id: run for run, lease in leases for device_id in lease.device_ids}
        return {id_: device_status(d, now, on.get(id_)) for id_, d in self._roster.devices.items()}
