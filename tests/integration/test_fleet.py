"""A farm of several hosts: joining, losing a link or a host, strangers, leaving."""

from __future__ import annotations

import itertools
import json
import math
import re
import signal
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing
from functools import partial
from operator import attrgetter
from pathlib import Path

import psutil
import pytest

from controller.contracts.run import Attempt, AttemptState, Run, RunState
from controller.store.sqlite import SqliteStore
from tests.integration.farm import (
    ENDLESS,
    SMALLEST_LSTM,
    endless_sweep,
    short_sweep,
    training_sweep,
)
from tests.support.figures import Figure
from tests.support.fleet import BENCHFARM, HOME, Fleet, fleet_up, let_wait
from tests.support.namespaced_hosts import REPOSITORY, Host, Lab, Program, lab
from tests.support.validity import MET_RULES
from tests.support.waiting import eventually, seconds_until

pytestmark = [pytest.mark.integration, pytest.mark.farm, pytest.mark.long]

PROBE = REPOSITORY / "tests/support/port_probe.py"
PUBLIC = {"/api/healthz", "/api/local_raylet_healthz", "/grpc.health.v1.Health/Check"}
"""Ray answers these to anyone: that it is alive, and nothing else."""
JOINED, ENDED = "has joined", "ended and is started again"
"""What the supervisor of a joined host says."""
Recipes = Mapping[str, Mapping[str, object]]
WIDE: Mapping[str, object] = {"ranks": 2, "hosts": 2}
UNTIL_NEARLY_DONE = """
import sys
from controller.runtime.client import FarmClient
from controller.runtime.home import Home
with FarmClient(Home.from_environment()).events(sys.argv[1]) as events:
    steps = (e.progress for e in events if e.progress and e.progress.phase == "training")
    next(progress for progress in steps if progress.done >= 5)
"""


@pytest.fixture(scope="module")
def switch(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lab]:
    with lab(tmp_path_factory.mktemp("fleet")) as switch:
        yield switch


@pytest.fixture(scope="module")
def fleet(switch: Lab) -> Iterator[Fleet]:
    with switch.host("head") as head, fleet_up(head) as fleet:
        yield fleet


@pytest.fixture(scope="module")
def node(switch: Lab) -> Iterator[Host]:
    with switch.host("node") as node:
        yield node


@pytest.fixture(scope="module")
def joined(fleet: Fleet, node: Host) -> Program:
    program = fleet.join(node, "--label", "rack=b2")
    eventually(lambda: fleet.device_of(node), "the host's device is there")
    return program


def wide_sweep(name: str, recipes: Recipes) -> dict[str, object]:
    """Return a sweep of training whose losses are those of one process, however many train."""
    changes = {"workload": "lstm", "knobs": SMALLEST_LSTM, "recipes": recipes}
    return {**training_sweep(name), **changes}


def await_steps(fleet: Fleet, sweep_id: str) -> None:
    """Return when a sweep's run has trained some steps."""
    waited = fleet.head.run([sys.executable, "-c", UNTIL_NEARLY_DONE, sweep_id])
    assert waited.returncode == 0, waited.stderr


def rank_on(host: Host) -> psutil.Process:
    """Return the one rank that a host's worker has started."""
    workers = host.processes("agents.worker")
    (rank,) = (each for each in workers if each.parent() in workers)
    return rank


def run_on(fleet: Fleet, host: Host, name: str) -> str:
    """Have a joined host measure something long that could run anywhere; return the sweep."""
    here, there = fleet.device_of(fleet.head), fleet.device_of(host)
    blocker = endless_sweep(f"{name}-blocker", devices=f'device == "{here}"')
    blocking = fleet.submit(blocker)
    sweep_id = fleet.submit(endless_sweep(name))
    eventually(lambda: fleet.holder(sweep_id) == there, "the joined host has the run")
    fleet.cli("sweep", "cancel", blocking)
    let_wait(host)
    return sweep_id


def test_a_host_joins_with_the_command_that_up_prints(
    fleet: Fleet, node: Host, joined: Program, figure: Figure
) -> None:
    (device,) = [
        d for d in json.loads(fleet.cli("device", "list", "--json")) if d["device"]["labels"]
    ]
    assert device["device"]["labels"] == {"rack": "b2"}
    assert device["device"]["id"] == fleet.device_of(node)
    assert re.search(r"agent host-\w+ has joined the farm at", joined.log.read_text())
    sweep = short_sweep("on-the-node", devices='rack == "b2"')
    fleet.submit(sweep, "--wait")
    (result,) = json.loads(fleet.cli("results", "list", "--json"))
    assert result["validity"] in MET_RULES
    assert result["device"] == device["device"]["id"]


def test_a_second_supervisor_is_refused(node: Host, joined: Program) -> None:
    join = ("agent", "start", "--head", "10.77.0.1", "--token-file", "/root/token")
    said = node.run([BENCHFARM, *join])
    assert said.returncode == 2
    assert "this host has joined already" in said.stderr
    assert joined.entrance.poll() is None


def test_a_stranger_is_served_nothing(
    switch: Lab, fleet: Fleet, node: Host, joined: Program
) -> None:
    addresses = [f"{host.address}:{port}" for host in (fleet.head, node) for port in ports(host)]
    with switch.host("stranger") as stranger:
        served = probe(stranger, addresses, token="")
        known = probe(stranger, addresses, token=fleet.home.ray_token.read_text())
    assert {a: set(s) - PUBLIC for a, s in served.items()} == {a: set() for a in addresses}
    # The same requests are good ones: with the token Ray serves them.
    assert "/ray.rpc.NodeInfoGcsService/GetAllNodeInfo" in known[f"{fleet.head.address}:6379"]


def test_ranks_on_two_hosts_train_as_one_process_does(
    fleet: Fleet, node: Host, joined: Program
) -> None:
    recipes: Recipes = {"alone": {"steps": 4}, "wide": {"steps": 4, **WIDE}}
    sweep_id = fleet.submit(wide_sweep("wide", recipes), "--wait")
    with closing(SqliteStore.open_reader(fleet.home.store)) as store:
        results = {result.knobs["ranks"]: result for result in store.results(sweep_id)}
    wide = results[2]
    assert {result.validity for result in results.values()} <= MET_RULES
    losses = {ranks: result.metrics["loss"].samples for ranks, result in results.items()}
    # fp32: only the order of the sums over a batch differs, by about 1e-7 of them a step.
    assert losses[2] == pytest.approx(losses[1], rel=1e-5)
    assert len(losses[2]) == 4
    facts = wide.environment
    hosts = [fleet.head, node] if wide.device == fleet.device_of(fleet.head) else [node, fleet.head]
    assert facts["hosts"] == tuple(host.name for host in hosts), "the lead, whose it is, first"
    assert facts["host_devices"] == tuple(fleet.device_of(host) for host in hosts)


def test_a_rank_that_dies_on_one_host_ends_the_run_on_both(
    fleet: Fleet, node: Host, joined: Program
) -> None:
    recipes: Recipes = {"wide": {"steps": ENDLESS, **WIDE}, "next": {"steps": 2}}
    sweep_id = fleet.submit(wide_sweep("killed-rank", recipes))
    await_steps(fleet, sweep_id)
    rank_on(node).send_signal(signal.SIGSEGV)
    assert fleet.called("sweep", "watch", sweep_id).returncode == 1
    states = {run.cell.knobs["ranks"]: run.state for run in fleet.runs(sweep_id)}
    assert states == {2: RunState.FAILED, 1: RunState.DONE}
    with closing(SqliteStore.open_reader(fleet.home.store)) as store:
        (failure,) = store.failures(sweep_id)
    assert re.fullmatch(r"on host node: rank \d of 2 ended with SIGSEGV", failure.message)
    eventually(lambda: not fleet.head.processes("agents.worker"), "the head's worker has ended")
    eventually(lambda: not node.processes("agents.worker"), "the other host's worker has ended")
    listed = json.loads(fleet.cli("device", "list", "--json"))
    assert {each["state"] for each in listed} == {"ready"}


def test_a_lost_host_ends_the_run_on_both(fleet: Fleet, node: Host, joined: Program) -> None:
    """The other host is free for other runs; what needed both waits until the lost one is back."""
    sweep_id = fleet.submit(wide_sweep("lost-host", {"wide": {"steps": ENDLESS, **WIDE}}))
    await_steps(fleet, sweep_id)
    leads = fleet.holder(sweep_id) == fleet.device_of(node)
    ended = joined.log.read_text().count(ENDED)
    node.cut_link()
    eventually(lambda: fleet.holder(sweep_id) is None, "the run holds no device")
    eventually(lambda: not fleet.head.processes("agents.worker"), "the other host's worker ended")
    fleet.submit(short_sweep("beside-the-lost"), "--wait")
    (run,) = fleet.runs(sweep_id)
    assert run.state is RunState.QUEUED
    assert run.attempts[0].state is (AttemptState.LOST if leads else AttemptState.FAILED)
    with closing(SqliteStore.open_reader(fleet.home.store)) as store:
        said = [failure.message for failure in store.failures(sweep_id)]
    assert said == ([] if leads else ["host node was lost while it trained a share of the ranks"])
    eventually(lambda: joined.log.read_text().count(ENDED) > ended, "the agent is started again")
    node.restore_link()
    eventually(lambda: fleet.holder(sweep_id), "both hosts have the run again")
    fleet.cli("sweep", "cancel", sweep_id)
    eventually(lambda: not node.processes("agents.worker"), "the lost host's worker has ended")


def test_a_cut_link_and_its_return(
    fleet: Fleet, node: Host, joined: Program, figure: Figure
) -> None:
    sweep_id = run_on(fleet, node, "cut")
    ended = joined.log.read_text().count(ENDED)
    here = fleet.device_of(fleet.head)
    node.cut_link()
    moved_s = seconds_until(lambda: fleet.holder(sweep_id) == here, "the head's host has the run")
    figure("seconds until a cut host's cell runs elsewhere", moved_s, "25")
    eventually(lambda: fleet.device_of(node) is None, "the host's device is gone")
    eventually(lambda: joined.log.read_text().count(ENDED) > ended, "the agent is started again")
    node.restore_link()
    back_s = seconds_until(lambda: fleet.device_of(node), "the host's device is there")
    figure("seconds from a link's return to the agent's", back_s, "30")
    eventually(lambda: not node.processes("agents.worker"), "what it measured on is ended")
    fleet.cli("sweep", "cancel", sweep_id)


def test_hosts_join_again_when_the_head_is_back(fleet: Fleet, joined: Program) -> None:
    """The head's own agent is revoked meanwhile, which `up` says."""
    before = joined.log.read_text().count("has joined")
    agents = json.loads(fleet.cli("agent", "list", "--json"))
    (own,) = [a["agent"]["id"] for a in agents if a["agent"]["host"] == fleet.head.name]
    fleet.cli("agent", "revoke", own, "--why", "stolen")
    fleet.cli("down")
    said = fleet.cli("up", "--listen", fleet.head.address)
    assert f"revoked  the controller refuses agent {own}: it was revoked by admin (stolen)." in said
    fleet.cli("agent", "admit", own)
    eventually(lambda: joined.log.read_text().count("has joined") > before, "the agent joins again")
    assert joined.entrance.poll() is None
    eventually(lambda: fleet.device_of(fleet.head), "the head's device is there")


def test_the_head_loses_power_in_a_sweep(
    fleet: Fleet, node: Host, joined: Program, figure: Figure
) -> None:
    """What the other host still measures is handed in when the head is back, and kept."""
    sweep = training_sweep("power-cut", 8, devices='rack == "b2"', repeats=2)
    sweep_id = fleet.submit(sweep)
    waited = fleet.head.run([sys.executable, "-c", UNTIL_NEARLY_DONE, sweep_id])
    assert waited.returncode == 0, waited.stderr
    before = [joined.log.read_text().count(words) for words in (ENDED, JOINED)]
    outbox = partial(node.path(HOME / "agent").glob, "*/outbox/*.json")
    fleet.head.cut_power()
    # A busy machine may not get so far before its node ends.
    eventually(
        lambda: list(outbox()) or joined.log.read_text().count(ENDED) > before[0],
        "a result lies in the outbox, or the agent ended",
    )
    measured = {file.stem for file in outbox()}
    fleet.head.restore_link()
    fleet.cli("up", "--listen", fleet.head.address)
    back_s = seconds_until(
        lambda: joined.log.read_text().count(JOINED) > before[1], "the agent joins again"
    )
    figure("seconds from the head's return to the other host's", back_s, "30")
    figure("runs measured while the head was lost", len(measured), "any")
    fleet.cli("sweep", "watch", sweep_id)

    runs = fleet.runs(sweep_id)
    assert {run.state for run in runs} == {RunState.DONE}
    results = json.loads(fleet.cli("results", "list", "--sweep", sweep_id, "--json"))
    assert sorted(r["run_id"] for r in results if r["counted"]) == sorted(r.run_id for r in runs)
    assert list(outbox()) == []
    kept = (a.late or a.state is AttemptState.SUCCEEDED for run in runs for a in run.attempts)
    names = (f"{run.run_id}-{a.number}" for run in runs for a in run.attempts)
    assert measured <= set(itertools.compress(names, kept))
    assert measured_twice_at_once(runs) == []


def test_sigterm_lets_a_run_finish_and_takes_no_more(
    fleet: Fleet, node: Host, joined: Program
) -> None:
    """The run takes some steps; another that only this host could take stays in the queue."""
    sweep = training_sweep("drained", 8, devices='rack == "b2"', repeats=2)
    sweep_id = fleet.submit(sweep)
    eventually(lambda: node.processes("agents.worker"), "the host's worker runs")
    joined.signal(signal.SIGTERM)
    assert joined.wait() == 0
    assert sorted(run.state for run in fleet.runs(sweep_id)) == [RunState.DONE, RunState.QUEUED]
    assert len(node.processes()) == 1, "the host's own first process"
    fleet.cli("sweep", "cancel", sweep_id)


def test_a_killed_hosts_cell_runs_elsewhere(switch: Lab, fleet: Fleet, figure: Figure) -> None:
    with switch.host("doomed") as doomed:
        fleet.join(doomed)
        joined_s = seconds_until(
            lambda: fleet.device_of(doomed), "the doomed host's device is there"
        )
        figure("seconds from agent start to the device's being shown", joined_s, "15")
        sweep_id = run_on(fleet, doomed, "killed")
        here = fleet.device_of(fleet.head)
        doomed.kill()
        moved_s = seconds_until(
            lambda: fleet.holder(sweep_id) == here, "the head's host has the run"
        )
    figure("seconds until a killed host's cell runs elsewhere", moved_s, "15")
    fleet.cli("sweep", "cancel", sweep_id)


def measured_twice_at_once(runs: Sequence[Run]) -> list[tuple[Attempt, Attempt]]:
    """Return attempts of which the second began on a device before the first had ended."""
    attempts = sorted((a for run in runs for a in run.attempts), key=attrgetter("leased_at"))
    pairs = itertools.combinations(attempts, 2)
    return [
        (a, b)
        for a, b in pairs
        if a.device_id == b.device_id and b.leased_at < (a.ended_at or math.inf)
    ]


def ports(host: Host) -> list[int]:
    """Return the TCP ports that a host has open to others."""
    found = set()
    for table in ("tcp", "tcp6"):
        for line in Path(f"/proc/{host.init.pid}/net/{table}").read_text().splitlines()[1:]:
            address, port = line.split()[1].split(":")
            listens = line.split()[3] == "0A"
            # Loopback: 127.0.0.1, the same within IPv6, and ::1.
            if listens and not address.endswith(("0100007F", "00000001000000")):
                found.add(int(port, 16))
    return sorted(found)


def probe(stranger: Host, addresses: list[str], token: str) -> dict[str, list[str]]:
    said = stranger.run([sys.executable, str(PROBE), *addresses], PROBE_TOKEN=token)
    assert said.returncode == 0, said.stderr
    served: dict[str, list[str]] = json.loads(said.stdout)
    return served
