"""Clocks that are set while 50 runs are under way: no lease is lost, and no dead host is kept."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from controller.contracts.device import DeviceState
from controller.contracts.errors import SharedMachineId
from controller.contracts.run import AttemptState, Run
from controller.contracts.sweep import Sweep
from controller.contracts.wire import AttemptRef, Exchange, Orders
from controller.runtime.farm import FarmSettings
from controller.scheduling.device_life import Failed
from tests.support import builders
from tests.support.farm import FarmBox

HOUR_S, MINUTE_S = 3600.0, 60.0
STEPS = [HOUR_S, -HOUR_S, MINUTE_S, -MINUTE_S]
HOSTS, EACH = 5, 10
BEAT_S = 3.0
FOUND_WITHIN_S = 15.0


class Hosts:
    """Agents that each hold ten runs and ask every three seconds, by clocks of their own."""

    def __init__(self, box: FarmBox) -> None:
        self.box = box
        self.ahead_s: dict[str, float] = {}
        self.held: dict[str, tuple[AttemptRef, ...]] = {}
        for host in (f"host-{n}" for n in range(HOSTS)):
            cpus = [builders.cpu(f"{host}-{n}", cores=frozenset({n})) for n in range(EACH)]
            box.farm.register(builders.registration(builders.agent(host), *cpus))
            self.ahead_s[host], self.held[host] = 0.0, ()

    def ask(self, host: str) -> Orders:
        asked_at = self.box.clock.now + self.ahead_s[host]
        question = Exchange(
            agent_id=host, incarnation="first", held=self.held[host], asked_at=asked_at
        )
        return self.box.farm.exchange(question)

    def take(self, host: str) -> None:
        """Begin what it is told to."""
        self.held[host] += tuple(job.ref for job in self.ask(host).run)

    def beat(self, seconds: float, silent: Sequence[str] = ()) -> None:
        """Let time pass, at each beat of which all ask but the silent."""
        for _ in range(round(seconds / BEAT_S)):
            self.box.wait(BEAT_S)
            for host in self.held.keys() - set(silent):
                self.ask(host)

    def state_of(self, host: str) -> list[DeviceState]:
        known = self.box.farm.state()
        return [known.statuses[d.device.id].state for d in known.devices if d.agent_id == host]


@pytest.fixture
def box(tmp_path: Path) -> Iterator[FarmBox]:
    box = FarmBox(tmp_path / "store.sqlite")
    box.clock.now = 1_800_000_000.0
    yield box
    box.close()


@pytest.fixture
def hosts(box: FarmBox) -> Hosts:
    hosts = Hosts(box)
    box.submit(sweep(HOSTS * EACH))
    for host in hosts.held:
        hosts.take(host)
    assert {len(held) for held in hosts.held.values()} == {EACH}
    return hosts


def sweep(repeats: int) -> Sweep:
    return builders.sweep(repeats=repeats)


def attempts(box: FarmBox) -> list[list[AttemptState]]:
    return [[a.state for a in run.attempts] for run in box.store.runs()]


ALL_LEASED = [[AttemptState.LEASED]] * (HOSTS * EACH)


def test_a_clock_is_set_of_the_head_or_of_a_host_and_no_lease_is_lost(
    box: FarmBox, hosts: Hosts
) -> None:
    for step in STEPS:
        before = box.farm.next_tick_in()
        box.clock.step(step)
        assert box.farm.next_tick_in() == before
        box.farm.tick()
        hosts.beat(2 * FOUND_WITHIN_S)
        hosts.ahead_s["host-0"] = step
        hosts.beat(2 * FOUND_WITHIN_S)
    assert attempts(box) == ALL_LEASED
    assert all(agent.online for agent in box.farm.state().agents)


@pytest.mark.parametrize("step", STEPS)
def test_a_host_that_dies_as_the_head_s_clock_is_set_is_found_in_time(
    box: FarmBox, hosts: Hosts, step: float
) -> None:
    hosts.beat(30.0)
    box.clock.step(step)
    box.farm.tick()
    hosts.beat(FOUND_WITHIN_S - BEAT_S, silent=["host-0"])
    assert set(hosts.state_of("host-0")) == {DeviceState.LOST}
    assert all(set(hosts.state_of(f"host-{n}")) == {DeviceState.BUSY} for n in range(1, HOSTS))
    ended = [states for states in attempts(box) if states != [AttemptState.LEASED]]
    assert ended == [[AttemptState.LOST]] * EACH
    for run in box.store.runs():
        assert all(a.ended_at is None or a.ended_at >= a.leased_at for a in run.attempts)


@pytest.mark.parametrize("step", [HOUR_S, -HOUR_S])
def test_a_lease_that_nobody_renews_runs_out_though_its_agent_asks(
    box: FarmBox, hosts: Hosts, step: float
) -> None:
    lost = hosts.held["host-0"][0]
    hosts.held["host-0"] = hosts.held["host-0"][1:]
    box.clock.step(step)
    hosts.beat(FOUND_WITHIN_S - BEAT_S)
    assert box.run(lost.run_id).attempts[0].state is AttemptState.LOST
    assert sum(states == [AttemptState.LEASED] for states in attempts(box)) == HOSTS * EACH - 1


@pytest.mark.parametrize("step", [HOUR_S, -HOUR_S])
def test_a_restart_gives_every_lease_a_full_term_whatever_the_clock_was_set_to(
    box: FarmBox, hosts: Hosts, step: float
) -> None:
    hosts.beat(30.0)
    box.clock.step(step)
    box.restart()
    ttl_s = FarmSettings().lease_ttl_s
    box.wait(ttl_s - 1)
    assert attempts(box) == ALL_LEASED
    box.wait(1)
    assert attempts(box) == [[AttemptState.LOST]] * (HOSTS * EACH)


@pytest.mark.parametrize("step", [HOUR_S, -HOUR_S])
def test_what_people_read_is_by_the_clock_as_it_is_set(
    box: FarmBox, hosts: Hosts, step: float
) -> None:
    box.clock.step(step)
    box.submit(sweep(1), again=True)
    assert box.store.sweeps()[-1].submitted_at == box.clock.now
    hosts.beat(12.0, silent=["host-0"])
    (agent,) = [a for a in box.farm.state().agents if a.agent.id == "host-0"]
    assert agent.since == box.clock.now


@pytest.mark.parametrize("step", [HOUR_S, -MINUTE_S])
def test_how_far_a_host_is_off_follows_a_step_of_either_clock(
    box: FarmBox, hosts: Hosts, step: float
) -> None:
    def ahead_s() -> float | None:
        return box.store.fleet()[0][0].clock_ahead_s

    box.wait(0.5)
    hosts.ask("host-0")
    assert ahead_s() == pytest.approx(0.0, abs=0.5)
    box.clock.step(step)
    hosts.ahead_s["host-0"] = -step
    box.wait(0.5)
    hosts.ask("host-0")
    assert ahead_s() == pytest.approx(-step, abs=0.5)
    hosts.ahead_s["host-0"] = 0.0
    box.wait(0.5)
    hosts.ask("host-0")
    assert ahead_s() == pytest.approx(0.0, abs=0.5)


@pytest.mark.parametrize("step", [HOUR_S, -HOUR_S])
def test_a_second_host_of_one_id_is_let_in_when_the_first_is_gone(
    box: FarmBox, hosts: Hosts, step: float
) -> None:
    agent = builders.agent("host-0").model_copy(update={"host": "other"})
    other = builders.registration(agent)
    box.clock.step(step)
    with pytest.raises(SharedMachineId) as refused:
        box.farm.register(other)
    assert refused.value.again_in_s == pytest.approx(FarmSettings().lease_ttl_s)
    box.clock.now += refused.value.again_in_s
    box.farm.register(other)


@pytest.mark.parametrize("step", [HOUR_S, -HOUR_S])
def test_a_quarantined_device_is_probed_after_its_pause(box: FarmBox, step: float) -> None:
    box.farm.register(builders.registration())
    device = box.farm.state().devices[0].device.id
    for _ in range(FarmSettings().quarantine.after):
        box.farm.apply_event(device, Failed("it burns"), "ann", "")
    pause_s = FarmSettings().quarantine.probe_first_s
    box.clock.step(step)
    assert _probed_after(box) == pytest.approx(pause_s, abs=BEAT_S)


def _probed_after(box: FarmBox) -> float:
    waited = 0.0
    while not box.ask().probe:
        box.wait(BEAT_S)
        waited += BEAT_S
    return waited


def test_fair_shares_count_the_time_that_passed(box: FarmBox) -> None:
    """Two users take turns on one device, though the clock is set in one's every run."""
    box.farm.register(builders.registration())
    for user in ("ann", "ben"):
        box.submit(sweep(4), user=user)
    order = []
    for _ in range(8):
        (job,) = box.ask().run
        user = box.farm.sweeps.sweep_status(_sweep_of(box, job.ref), "admin").user
        order.append(user)
        box.clock.step(HOUR_S if user == "ann" else -HOUR_S)
        for _ in range(40):
            box.wait(BEAT_S)
            box.ask(job.ref)
        box.report(job.ref, builders.result())
    assert order == ["ann", "ben"] * 4


def _sweep_of(box: FarmBox, ref: AttemptRef) -> str:
    run: Run = box.run(ref.run_id)
    return run.sweep_id
