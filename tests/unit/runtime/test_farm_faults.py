"""The whole farm under faults: agents crash, fall silent and come back, messages are lost, doubled
and late, the controller restarts, sweeps come and go, in any order."""

from __future__ import annotations

import shutil
import tempfile
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from controller.contracts.device import Device
from controller.contracts.errors import UnknownAgent
from controller.contracts.result import Blame, Outcome
from controller.contracts.run import AttemptState, RunState
from controller.contracts.sweep import Sweep
from controller.contracts.wire import AttemptRef, Exchange, Orders, Report
from controller.scheduling.policy import RetryPolicy
from tests.support import builders
from tests.support.farm import TTL_S, FarmBox

POLICY = RetryPolicy()
SERVERS = {"cpu-0", "cpu-0b", "cpu-1"}
SWEEPS: list[tuple[Sweep, set[str]]] = [
    (builders.sweep(name="servers", repeats=3), SERVERS),
    (builders.sweep(name="one", devices="device == cpu-1", repeats=2), {"cpu-1"}),
    (builders.sweep(name="each", run_on="each", knobs={"batch_size": [1, 2]}), SERVERS),
    (builders.sweep(name="phones", stack="litert", repeats=3), {"phone-1"}),
]
"""Sweeps and the devices one of which must be there to submit them."""
FLEET = {
    "host-0": (
        builders.cpu("cpu-0", cores=frozenset({0, 1})),
        builders.cpu("cpu-0b", cores=frozenset({1, 2})),
        builders.phone(),
    ),
    "host-1": (builders.cpu("cpu-1", cores=frozenset({0})), builders.phone()),
}
"""The phone is reached by both, or has another of the same serial."""
DEVICES: dict[str, Device] = {d.id: d for devices in FLEET.values() for d in devices}
AGENTS = st.sampled_from(sorted(FLEET))
OUTCOMES: st.SearchStrategy[Outcome] = st.one_of(
    st.just(builders.result()), st.sampled_from([builders.failure(blame) for blame in Blame])
)


@dataclass
class Host:
    """An agent as the controller sees it: its outbox is on disk and outlives it."""

    name: str
    starts: int = 0
    alive: bool = False
    running: list[AttemptRef] = field(default_factory=list)
    outbox: list[Report] = field(default_factory=list)

    @property
    def incarnation(self) -> str:
        return f"start-{self.starts}"

    def question(self) -> Exchange:
        held = (*self.running, *(report.ref for report in self.outbox))
        return Exchange(agent_id=self.name, incarnation=self.incarnation, held=held, asked_at=0.0)

    def obey(self, orders: Orders) -> None:
        held = self.question().held
        self.running = [ref for ref in self.running if ref not in orders.stop]
        self.running += [job.ref for job in orders.run if job.ref not in held]

    def finish(self, outcome: Outcome, now: float) -> None:
        self.outbox.append(
            Report(
                ref=self.running.pop(0),
                agent_id=self.name,
                incarnation=self.incarnation,
                started_at=now,
                outcome=outcome,
            )
        )


class FarmUnderFaults(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.folder = Path(tempfile.mkdtemp(prefix="benchfarm-test-"))
        self.box = FarmBox(self.folder / "store.sqlite")
        self.hosts = {name: Host(name) for name in FLEET}
        self.submitted: dict[str, int] = {}
        self.come_back("host-0")
        self.come_back("host-1")
        self.submit(SWEEPS[0], again=False)

    # --- what happens ---------------------------------------------------------------------------

    @rule(choice=st.sampled_from(SWEEPS), again=st.booleans())
    def submit(self, choice: tuple[Sweep, set[str]], again: bool) -> None:
        sweep, needed = choice
        _, devices = self.box.store.fleet()
        if not needed & {d.device.id for d in devices if d.online}:
            return
        answer = self.box.submit(sweep, again=again)
        known = self.submitted.get(answer.sweep_id, 0)
        assert not (again and known)
        assert answer.known_runs <= known
        self.submitted[answer.sweep_id] = known + answer.new_runs

    @rule(data=st.data())
    def cancel(self, data: st.DataObject) -> None:
        if self.submitted and data.draw(st.integers(0, 2)) == 0:
            self.box.cancel(data.draw(st.sampled_from(sorted(self.submitted))))

    @rule(name=AGENTS, lost=st.booleans())
    def ask(self, name: str, lost: bool) -> None:
        host = self.hosts[name]
        if not host.alive:
            return
        try:
            orders = self.box.farm.exchange(host.question())
        except UnknownAgent:
            self.register(host)
            return
        if not lost:
            host.obey(orders)

    @rule(name=AGENTS, outcome=OUTCOMES)
    def finish(self, name: str, outcome: Outcome) -> None:
        host = self.hosts[name]
        if host.alive and host.running:
            host.finish(outcome, self.box.clock.now)

    @rule(name=AGENTS, times=st.integers(1, 2), acknowledged=st.booleans())
    def hand_in(self, name: str, times: int, acknowledged: bool) -> None:
        host = self.hosts[name]
        if host.alive and host.outbox:
            for _ in range(times):
                self.box.farm.report(host.outbox[0])
            if acknowledged:
                host.outbox.pop(0)

    @rule(name=AGENTS)
    def crash(self, name: str) -> None:
        host = self.hosts[name]
        host.alive, host.running = False, []

    @rule(name=AGENTS)
    def come_back(self, name: str) -> None:
        host = self.hosts[name]
        if not host.alive:
            host.alive, host.starts = True, host.starts + 1
            self.register(host)

    @rule()
    def restart_the_controller(self) -> None:
        self.box.restart()

    @rule(seconds=st.sampled_from([0.5, 3.0, TTL_S / 2, TTL_S, 3 * TTL_S]), noticed=st.booleans())
    def wait(self, seconds: float, noticed: bool) -> None:
        self.box.clock.now += seconds
        if noticed:
            self.box.farm.tick()

    def register(self, host: Host) -> None:
        agent = builders.agent(host.name, host.incarnation)
        before = {d.device.id: d.agent_id for d in self.box.store.fleet()[1] if d.online}
        admission = self.box.farm.register(builders.registration(agent, *FLEET[host.name]))
        after = {d.device.id: d.agent_id for d in self.box.store.fleet()[1] if d.online}
        taken = {d.id for d in FLEET[host.name] if before.get(d.id, host.name) != host.name}
        assert {held.device_id for held in admission.refused} == taken
        assert after == {d.id: host.name for d in FLEET[host.name]} | before

    # --- what holds -----------------------------------------------------------------------------

    @invariant()
    def every_run_of_every_sweep_is_there_and_sane(self) -> None:
        runs = self.box.store.runs()
        assert Counter(run.sweep_id for run in runs) == self.submitted
        for run in runs:
            live = [a for a in run.attempts if a.state is AttemptState.LEASED]
            assert len(live) == (run.state is RunState.LEASED)
            assert len(run.attempts) <= POLICY.max_failures + POLICY.max_lost

    @invariant()
    def leases_have_a_device_and_its_cores_alone(self) -> None:
        leases = [run.lease for run in self.box.store.runs(open_only=True) if run.lease]
        assert max(Counter(lease.device_id for lease in leases).values(), default=0) <= 1
        cores = Counter(
            (lease.agent_id, core)
            for lease in leases
            for core in DEVICES[lease.device_id].host_cores
        )
        assert max(cores.values(), default=0) <= 1
        assert all(DEVICES[lease.device_id] in FLEET[lease.agent_id] for lease in leases)

    @invariant()
    def nothing_is_waited_for_longer_than_a_lease(self) -> None:
        assert 0.0 <= self.box.farm.next_tick_in() <= TTL_S

    @invariant()
    def a_run_has_one_result_that_counts_if_it_is_done(self) -> None:
        counted = Counter(r.run_id for r in self.box.store.results() if r.counted)
        done = {run.run_id for run in self.box.store.runs() if run.state is RunState.DONE}
        assert counted == dict.fromkeys(done, 1)

    # --- when the faults stop -------------------------------------------------------------------

    def teardown(self) -> None:
        try:
            self._settle()
        finally:
            self.box.close()
            shutil.rmtree(self.folder)

    def _settle(self) -> None:
        for name in FLEET:
            self.come_back(name)
        for _ in range(4 * sum(self.submitted.values()) + 20):
            if not self.box.store.runs(open_only=True):
                break
            self._one_good_round()
        counted = Counter((r.run_id, r.attempt) for r in self.box.store.failures() if r.counted)
        for run in self.box.store.runs():
            assert run.state.terminal
            last = run.run_id, len(run.attempts)
            assert counted[last] == (run.state is RunState.FAILED)
        self.a_run_has_one_result_that_counts_if_it_is_done()

    def _one_good_round(self) -> None:
        self.box.wait(1.0)
        for name, host in self.hosts.items():
            while host.outbox:
                self.hand_in(name, times=1, acknowledged=True)
            self.ask(name, lost=False)
            while host.running:
                host.finish(builders.result(), self.box.clock.now)


TestFarmUnderFaults = FarmUnderFaults.TestCase
TestFarmUnderFaults.settings = settings(max_examples=20, stateful_step_count=35)
