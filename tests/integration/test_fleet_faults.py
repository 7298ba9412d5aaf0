"""A host of a real farm whose clock is an hour ahead: it freezes, and its disk fills up."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from contextlib import closing
from datetime import datetime

import pytest

from agents.host.clock import AHEAD
from controller.contracts.run import AttemptState, RunState
from controller.store.sqlite import SqliteStore
from tests.integration.farm import endless_sweep, short_sweep, training_sweep
from tests.support.figures import Figure
from tests.support.fleet import BENCHFARM, Fleet, fleet_up
from tests.support.namespaced_hosts import Host, Program, lab
from tests.support.validity import MET_RULES
from tests.support.waiting import eventually, seconds_until

pytestmark = [pytest.mark.integration, pytest.mark.farm, pytest.mark.long]

HOUR_S = 3600.0
DISK_BYTES = 256 << 20
OUTBOX = "root/.benchfarm/agent"


@pytest.fixture(scope="module")
def hosts(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Host, Host]]:
    with (
        lab(tmp_path_factory.mktemp("faults")) as switch,
        switch.host("head") as head,
        switch.host("node", DISK_BYTES) as node,
    ):
        yield head, node


@pytest.fixture(scope="module")
def node(hosts: tuple[Host, Host]) -> Host:
    return hosts[1]


@pytest.fixture(scope="module")
def fleet(hosts: tuple[Host, Host]) -> Iterator[Fleet]:
    with fleet_up(hosts[0]) as fleet:
        yield fleet


@pytest.fixture(scope="module")
def joined(fleet: Fleet, node: Host) -> Program:
    program = fleet.join(node, "--label", "rack=b2", **{AHEAD: str(HOUR_S)})
    eventually(lambda: fleet.device_of(node), "the host's device is there")
    return program


def start_on(fleet: Fleet, host: Host, sweep: dict[str, object]) -> str:
    """Have a joined host begin a sweep of one run that could run anywhere; return its id."""
    here, there = fleet.device_of(fleet.head), fleet.device_of(host)
    assert here
    fleet.cli("device", "quarantine", here, "--why", "the other is to have it")
    sweep_id = fleet.submit(sweep)
    eventually(lambda: fleet.holder(sweep_id) == there, "the joined host has the run")
    fleet.cli("device", "release", here)
    eventually(lambda: host.processes("agents.worker"), "its worker runs")
    return sweep_id


def test_times_of_a_host_whose_clock_is_an_hour_ahead_are_the_controllers(
    fleet: Fleet, node: Host, joined: Program
) -> None:
    listed = {d["device"]["id"]: d for d in json.loads(fleet.cli("device", "list", "--json"))}
    ahead = {id_: status["clock_ahead_s"] for id_, status in listed.items()}
    here, there = fleet.device_of(fleet.head), fleet.device_of(node)
    assert ahead == {here: pytest.approx(0, abs=60), there: pytest.approx(HOUR_S, abs=60)}
    (line,) = fleet.head.run([BENCHFARM, "agent", "list"]).stderr.splitlines()
    assert re.search(r"on host node is 3[56]\d\d\.\d s ahead of the controller's", line)

    sweep_id = fleet.submit(short_sweep("hour-ahead", devices='rack == "b2"'), "--wait")
    ((attempt,),) = [run.attempts for run in fleet.runs(sweep_id)]
    (result,) = json.loads(fleet.cli("results", "list", "--sweep", sweep_id, "--json"))
    assert attempt.ended_at
    began = datetime.fromisoformat(result["started_at"]).timestamp()
    assert attempt.leased_at - 0.001 <= began < attempt.ended_at < attempt.leased_at + HOUR_S / 2
    assert (result["device"], result["counted"]) == (there, True)


def test_a_frozen_hosts_cell_runs_elsewhere_and_its_late_result_does_not_count(
    fleet: Fleet, node: Host, joined: Program, figure: Figure
) -> None:
    here, there = fleet.device_of(fleet.head), fleet.device_of(node)
    joins = joined.log.read_text().count("has joined")
    sweep_id = start_on(fleet, node, training_sweep("frozen"))
    node.freeze()
    moved_s = seconds_until(lambda: fleet.holder(sweep_id) == here, "the head's host has the run")
    figure("seconds until a frozen host's cell runs elsewhere", moved_s, "25")
    eventually(lambda: fleet.device_of(node) is None, "the host's device is gone")

    # It has measured to the end before it hears that nobody waits for that any more.
    node.thaw("agents.worker")
    eventually(lambda: not node.processes("agents.worker"), "the host's worker is gone")
    node.cut_link()
    node.thaw()
    eventually(
        lambda: list(node.path(OUTBOX).glob("*/outbox/*.json")), "a result lies in the outbox"
    )
    node.restore_link()
    # The agent may be heard once more before its node, which the head took for dead, ends.
    back_s = seconds_until(
        lambda: joined.log.read_text().count("has joined") > joins, "the agent joins again"
    )
    assert fleet.device_of(node) == there
    figure("seconds until a thawed host is back", back_s, "30")
    eventually(lambda: fleet.runs(sweep_id)[0].attempts[0].late, "the late result is kept")

    eventually(lambda: fleet.runs(sweep_id)[0].state is RunState.DONE, "the run is done")
    (run,) = fleet.runs(sweep_id)
    assert [a.state for a in run.attempts] == [AttemptState.LOST, AttemptState.SUCCEEDED]
    found = json.loads(fleet.cli("results", "list", "--sweep", sweep_id, "--json"))
    assert sorted((r["device"], r["counted"]) for r in found) == sorted(
        [(here, True), (there, False)]
    )


def test_a_host_whose_disk_is_full_says_so_and_measures_again_once_there_is_room(
    fleet: Fleet, node: Host, joined: Program
) -> None:
    """A worker that ends there meanwhile is the host's fault, whatever ended it."""
    there = fleet.device_of(node)
    started = joined.log.read_text().count("is started again")
    sweep_id = start_on(fleet, node, endless_sweep("full", devices='rack == "b2"'))
    filler = node.fill_disk()
    eventually(lambda: fleet.device_of(node) is None, "the host's device is gone")
    assert fleet.holder(sweep_id) == there, "what runs may come to its end"
    for worker in node.processes("agents.worker"):
        worker.kill()
    eventually(lambda: fleet.runs(sweep_id)[0].state is RunState.QUEUED, "the run is queued")
    (failure,) = json.loads(
        fleet.cli("results", "list", "--failures", "--sweep", sweep_id, "--json")
    )
    assert (failure["blame"], failure["kind"]) == ("device", "disk_full")
    full = "less than 64 MiB are free on the disk of /root/.benchfarm"
    assert failure["message"].startswith(f"{full}; ")
    shown = {d["device"]["id"]: d for d in json.loads(fleet.cli("device", "list", "--json"))}
    assert (shown[str(there)]["state"], shown[str(there)]["why"]) == ("offline", full)

    fleet.submit(short_sweep("elsewhere"), "--wait")
    (run,) = fleet.runs(sweep_id)
    assert [a.state for a in run.attempts] == [AttemptState.FAILED], "it is not given to it again"
    fleet.cli("sweep", "cancel", sweep_id)
    filler.unlink()
    eventually(lambda: fleet.device_of(node) == there, "the host's device is back")
    fleet.submit(short_sweep("room-again", devices='rack == "b2"'), "--wait")
    with closing(SqliteStore.open_reader(fleet.home.store)) as store:
        counted = [(r.device, r.validity) for r in store.results() if r.counted]
    assert counted[-1][0] == there
    assert counted[-1][1] in MET_RULES
    assert joined.log.read_text().count("is started again") == started, "it went on all the while"
