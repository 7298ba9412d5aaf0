"""The farm's state and its rules, without Ray, sockets or threads: the controller's core.

Every change goes event → lifecycle → store → memory, in that order, so that a controller that
dies at any point comes back to a truth it had already written.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field

from controller.contracts.catalog import Catalog
from controller.contracts.device import (
    Admission,
    Agent,
    Device,
    HeldDevice,
    RegisteredAgent,
    RegisteredDevice,
    Registration,
)
from controller.contracts.errors import (
    NotFound,
    UnknownAgent,
    UnknownAttempt,
    VersionMismatch,
)
from controller.contracts.records import SweepRecord
from controller.contracts.run import Run, RunChange
from controller.contracts.sweep import Sweep
from controller.contracts.wire import (
    AttemptRef,
    Exchange,
    Job,
    Orders,
    Report,
    RunEvent,
    RunProgress,
    Submission,
)
from controller.metrics.collector import FarmState
from controller.scheduling.expansion import cells_of, place_cells, runs_of
from controller.scheduling.lifecycle import (
    Cancelled,
    Event,
    Granted,
    LeaseLost,
    Renewed,
    Reported,
    advance,
)
from controller.scheduling.placement import place
from controller.scheduling.policy import RetryPolicy
from controller.scheduling.program import program_of, rival_of
from controller.store.protocol import Store


@dataclass(frozen=True, slots=True)
class FarmSettings:
    """Times in seconds."""

    lease_ttl_s: float = 10.0
    exchange_hold_s: float = 3.0
    """How long an agent's question waits for something to do; its heartbeat."""
    retry: RetryPolicy = field(default_factory=RetryPolicy)


class Farm:
    """Agents, devices and open runs, and what happens to them."""

    def __init__(
        self,
        store: Store,
        catalog: Catalog,
        version: str,
        settings: FarmSettings,
        clock: Callable[[], float],
        publish: Callable[[RunEvent], None],
        observe: Callable[[Run, RunChange], None] = lambda *_: None,
    ) -> None:
        """`observe` is called with a run as it was, and each change of it once that is stored."""
        self._store = store
        self._catalog = catalog
        self._version = version
        self._settings = settings
        self._clock = clock
        self._publish = publish
        self._observe = observe
        self._seen: dict[str, float] = {}
        agents, devices = store.fleet()
        self._agents = {a.agent.id: a for a in agents}
        self._devices = {d.device.id: d for d in devices}
        self._open = {run.run_id: run for run in store.runs(open_only=True)}
        self._recover()

    def _recover(self) -> None:
        # Nobody could renew a lease while the controller was away: every owner gets a full term.
        now = self._clock()
        self._seen = {a.agent.id: now for a in self._agents.values() if a.online}
        for run in list(self._open.values()):
            if run.lease:
                renewed = Renewed(run.lease.number, now + self._settings.lease_ttl_s)
                self._open[run.run_id] = advance(run, renewed, now, self._settings.retry).run

    # --- what agents say -----------------------------------------------------------------------

    def register(self, registration: Registration) -> Admission:
        """Take in an agent and its devices; a restarted agent loses what its former self held.

        A device that another agent has there now is refused. Raises VersionMismatch.
        """
        agent = registration.agent
        if agent.version != self._version:
            raise VersionMismatch(agent.id, agent.version, self._version)
        held = {d.id: holder for d in registration.devices if (holder := self._holder(d, agent))}
        self._save_agent(agent, [d for d in registration.devices if d.id not in held], online=True)
        self._seen[agent.id] = self._clock()
        self._apply_each(
            (run, LeaseLost())
            for run in self._leased(agent.id)
            if run.lease and run.lease.incarnation != agent.incarnation
        )
        self._place()
        refused = (HeldDevice(device_id=d, agent_id=a.id, host=a.host) for d, a in held.items())
        return Admission(refused=tuple(refused), again_in_s=self._settings.lease_ttl_s)

    def exchange(self, question: Exchange) -> Orders:
        """Renew what the agent holds and say what it should run and stop.

        Raises UnknownAgent if it has to register first.
        """
        known = self._agents.get(question.agent_id)
        if known is None or known.agent.incarnation != question.incarnation or not known.online:
            raise UnknownAgent(question.agent_id, question.incarnation)
        now = self._clock()
        self._seen[question.agent_id] = now
        leased = {
            _ref(run): run
            for run in self._leased(question.agent_id)
            # A former self's lease outlives a controller that died while the agent registered.
            if run.lease and run.lease.incarnation == question.incarnation
        }
        held = set(question.held)
        for ref, run in leased.items():
            if ref in held:
                renewed = Renewed(ref.attempt, now + self._settings.lease_ttl_s)
                # Not stored: recovery renews every lease anyway.
                self._open[run.run_id] = advance(run, renewed, now, self._settings.retry).run
        return Orders(
            run=tuple(self._job(run) for ref, run in leased.items() if ref not in held),
            stop=tuple(ref for ref in question.held if ref not in leased),
        )

    def report(self, report: Report) -> None:
        """Take an attempt's outcome; returning means it is stored for good.

        Raises UnknownAttempt for an attempt this agent was never given.
        """
        ref = report.ref
        run = self._open.get(ref.run_id) or self._store.run(ref.run_id)
        attempts = run.attempts if run else ()
        if run is None or not any(
            a.number == ref.attempt and a.agent_id == report.agent_id for a in attempts
        ):
            raise UnknownAttempt(ref.run_id, ref.attempt)
        self._apply(run, Reported(ref.attempt, report.outcome, report.started_at))
        self._place()

    def progress(self, progress: RunProgress) -> None:
        """Pass a run's progress to whoever watches; not stored."""
        run = self._open.get(progress.ref.run_id)
        if run and run.lease and run.lease.number == progress.ref.attempt:
            self._publish(RunEvent.of(run, progress.progress))

    # --- what users say ------------------------------------------------------------------------

    def submit(self, sweep: Sweep, *, again: bool = False) -> Submission:
        """Queue a sweep's runs; those it already has are left alone.

        again: submit as a new generation, measured anew. Raises SweepInvalid, NoMatchingDevice.
        """
        now = self._clock()
        cells = cells_of(sweep, self._catalog, sweep.name)
        bound = place_cells(sweep, cells, self._online_devices(), self._catalog)
        earlier = [r.generation for r in self._store.sweeps() if r.sweep == sweep]
        generation = max(earlier, default=0) + (1 if again or not earlier else 0)
        sweep_id = sweep.sweep_id(generation)
        runs = runs_of(sweep, sweep_id, bound, now)
        record = SweepRecord(
            sweep_id=sweep_id, sweep=sweep, generation=generation, submitted_at=now
        )
        new = self._store.add_sweep(record, runs)
        self._open.update((run.run_id, run) for run in new)
        self._place()
        known = len(runs) - len(new)
        return Submission(sweep_id=sweep_id, new_runs=len(new), known_runs=known)

    def require(self, sweep_id: str) -> None:
        """Raise NotFound if there is no such sweep."""
        if not any(record.sweep_id == sweep_id for record in self._store.sweeps()):
            tried = f"looking for sweep {sweep_id}"
            raise NotFound(tried, "there is no such sweep", "see: benchfarm sweep status")

    def cancel(self, sweep_id: str) -> int:
        """Cancel a sweep's open runs and return how many there were; raises NotFound."""
        self.require(sweep_id)
        doomed = [run for run in self._open.values() if run.sweep_id == sweep_id]
        self._apply_each((run, Cancelled()) for run in doomed)
        self._place()
        return len(doomed)

    # --- time ----------------------------------------------------------------------------------

    def tick(self) -> None:
        """Mark silent agents offline and end leases that ran out."""
        now = self._clock()
        for agent_id, seen in list(self._seen.items()):
            if seen + self._settings.lease_ttl_s <= now:
                self._offline(self._agents[agent_id].agent)
        self._apply_each(
            (run, LeaseLost())
            for run in list(self._open.values())
            if run.lease and run.lease.expires_at <= now
        )
        self._place()

    def next_tick_in(self) -> float:
        """Return in how many seconds something may run out, at most a lease's length."""
        now, ttl = self._clock(), self._settings.lease_ttl_s
        leases = [run.lease.expires_at for run in self._open.values() if run.lease]
        silent = [seen + ttl for seen in self._seen.values()]
        return max(0.0, min(leases + silent, default=now + ttl) - now)

    # --- what there is -------------------------------------------------------------------------

    def state(self) -> FarmState:
        """Return all agents, devices and open runs as they are now."""
        return FarmState(
            now=self._clock(),
            agents=tuple(self._agents.values()),
            devices=tuple(self._devices.values()),
            open_runs=tuple(self._open.values()),
        )

    # --- inside --------------------------------------------------------------------------------

    def _online_devices(self) -> list[Device]:
        return [d.device for d in self._devices.values() if d.online]

    def _holder(self, device: Device, agent: Agent) -> Agent | None:
        """Return the other agent that has a device there now."""
        known = self._devices.get(device.id)
        if known is None or not known.online or known.agent_id == agent.id:
            return None
        return self._agents[known.agent_id].agent

    def _leased(self, agent_id: str) -> list[Run]:
        return [r for r in self._open.values() if r.lease and r.lease.agent_id == agent_id]

    def _job(self, run: Run) -> Job:
        cell, lease = run.cell, run.lease
        if lease is None:
            raise UnknownAttempt(run.run_id, len(run.attempts))
        return Job(
            ref=AttemptRef(run_id=run.run_id, attempt=lease.number),
            device_id=lease.device_id,
            workload=cell.workload,
            stack=cell.stack,
            scenario=cell.scenario,
            knobs=cell.knobs,
            program=program_of(cell, self._catalog),
            deadline_s=run.deadline_s,
            rival=rival_of(cell, self._catalog),
        )

    def _place(self) -> None:
        leases = [run.lease for run in self._open.values() if run.lease]
        busy = {lease.device_id for lease in leases}
        cores: dict[str, set[int]] = defaultdict(set)
        for device_id in busy:
            known = self._devices[device_id]
            cores[known.agent_id] |= known.device.host_cores
        queued = (run for run in self._open.values() if run.lease is None)
        free = [d for d in self._online_devices() if d.id not in busy]
        hosts = {d.device.id: d.agent_id for d in self._devices.values()}
        expires_at = self._clock() + self._settings.lease_ttl_s
        grants = list(place(queued, free, cores, hosts, self._catalog))
        self._apply_each((run, self._grant(device, expires_at)) for run, device in grants)

    def _grant(self, device: Device, expires_at: float) -> Granted:
        agent = self._agents[self._devices[device.id].agent_id].agent
        return Granted(device.id, agent.id, agent.incarnation, expires_at)

    def _apply(self, run: Run, event: Event) -> None:
        self._apply_each([(run, event)])

    def _apply_each(self, events: Iterable[tuple[Run, Event]]) -> None:
        now = self._clock()
        pairs = [(run, advance(run, event, now, self._settings.retry)) for run, event in events]
        changed = [(run, change) for run, change in pairs if change.run != run or change.record]
        if not changed:
            return
        self._store.save_runs([change for _, change in changed])
        for _, change in changed:
            self._remember(change)
        for run, change in changed:
            self._observe(run, change)

    def _remember(self, change: RunChange) -> None:
        run = change.run
        if run.state.terminal:
            self._open.pop(run.run_id, None)
        else:
            self._open[run.run_id] = run
        self._publish(RunEvent.of(run))

    def _offline(self, agent: Agent) -> None:
        devices = [d.device for d in self._devices.values() if d.agent_id == agent.id]
        self._save_agent(agent, devices, online=False)
        del self._seen[agent.id]

    def _save_agent(self, agent: Agent, devices: Sequence[Device], *, online: bool) -> None:
        """Keep an agent and its devices; what it had and has no more goes offline."""
        now = self._clock()
        known = RegisteredAgent(
            agent=agent, online=online, since=_since(self._agents.get(agent.id), online, now)
        )
        present = {
            d.id: RegisteredDevice(
                device=d,
                agent_id=agent.id,
                online=online,
                since=_since(self._devices.get(d.id), online, now),
            )
            for d in devices
        }
        vanished = {
            id_: d.model_copy(update={"online": False, "since": _since(d, False, now)})
            for id_, d in self._devices.items()
            if d.agent_id == agent.id and id_ not in present
        }
        self._store.save_agent(known, [*present.values(), *vanished.values()])
        self._agents[agent.id] = known
        self._devices |= present | vanished


def _since(known: RegisteredAgent | RegisteredDevice | None, online: bool, now: float) -> float:
    """Return since when an agent or a device is as it is now."""
    return known.since if known and known.online is online else now


def _ref(run: Run) -> AttemptRef:
    return AttemptRef(run_id=run.run_id, attempt=len(run.attempts))
