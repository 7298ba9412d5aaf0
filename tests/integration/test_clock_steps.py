"""Clocks of real hosts that are set while runs are under way: of the head, and of a joined host."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass

import pytest

from controller.contracts.run import AttemptState, RunState
from tests.integration.farm import endless_sweep
from tests.support.figures import Figure
from tests.support.fleet import Fleet, fleet_up, let_wait
from tests.support.namespaced_hosts import Host, lab
from tests.support.waiting import eventually, seconds_until
from tests.support.wall_clock import WallClock, build_shim

pytestmark = [pytest.mark.integration, pytest.mark.farm, pytest.mark.long]

HOUR_S, MINUTE_S = 3600.0, 60.0
RUNS = 50
"""So many are open: two of them under way, the others queued."""
TERM_S = 12.0
"""Longer than a lease that nobody renews."""


@dataclass(frozen=True, slots=True)
class Stepped:
    """A farm of two hosts, whose clocks can be set."""

    fleet: Fleet
    node: Host
    head_clock: WallClock
    node_clock: WallClock


@pytest.fixture(scope="module")
def stepped(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stepped]:
    folder = tmp_path_factory.mktemp("steps")
    shim = build_shim(folder)
    with lab(folder) as switch, switch.host("head") as head, switch.host("node") as node:
        clocks = [WallClock.of(host, shim) for host in (head, node)]
        with fleet_up(head) as fleet:
            fleet.join(node)
            eventually(lambda: fleet.device_of(node), "the host's device is there")
            yield Stepped(fleet, node, *clocks)


def test_no_lease_is_lost_while_clocks_are_set_and_a_dead_host_is_found_in_time(
    stepped: Stepped, figure: Figure
) -> None:
    fleet, node = stepped.fleet, stepped.node
    sweep_id = fleet.submit(endless_sweep("steps", repeats=RUNS, run_on="any"))
    eventually(lambda: len(leased(fleet, sweep_id)) == 2, "each host has a run")
    for host in (fleet.head, node):
        let_wait(host)
    held = leased(fleet, sweep_id)
    for clock in (stepped.head_clock, stepped.node_clock):
        for step in (HOUR_S, -HOUR_S, MINUTE_S, -MINUTE_S):
            before = clock.now()
            clock.step(step)
            assert clock.now() - before == pytest.approx(step, abs=10), "it is set"
            _stay_leased(fleet, sweep_id, held, TERM_S)
            expected = stepped.node_clock.now() - stepped.head_clock.now()
            assert fleet.ahead_s(node) == pytest.approx(expected, abs=5)

    stepped.head_clock.step(-HOUR_S)
    node.freeze()
    found_s = seconds_until(lambda: fleet.device_of(node) is None, "the silent host is lost")
    figure("seconds until a host is found dead as the head's clock is set back", found_s, "15")
    eventually(
        lambda: states(fleet, sweep_id) == [AttemptState.LEASED, AttemptState.LOST],
        "its run waits",
    )
    node.thaw()
    stepped.head_clock.step(HOUR_S)
    fleet.cli("sweep", "cancel", sweep_id)
    assert {run.state for run in fleet.runs(sweep_id)} == {RunState.CANCELLED}


def leased(fleet: Fleet, sweep_id: str) -> set[str]:
    return {run.run_id for run in fleet.runs(sweep_id) if run.lease}


def states(fleet: Fleet, sweep_id: str) -> list[AttemptState]:
    """Return the states of all attempts of a sweep's runs."""
    return sorted(attempt.state for run in fleet.runs(sweep_id) for attempt in run.attempts)


def _stay_leased(fleet: Fleet, sweep_id: str, held: set[str], seconds: float) -> None:
    """See for so long that the runs that are held keep their one attempt, and no other has one."""
    ends = time.monotonic() + seconds
    while time.monotonic() < ends:
        runs = fleet.runs(sweep_id)  # of one moment, and asked once
        assert {run.run_id for run in runs if run.lease} == held
        attempts = [attempt.state for run in runs for attempt in run.attempts]
        assert attempts == [AttemptState.LEASED] * len(held)
        time.sleep(0.5)
