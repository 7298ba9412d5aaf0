"""The controller is killed again and again: every cell still has exactly one result that counts."""

from __future__ import annotations

import os
import signal
import subprocess
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from controller.contracts.run import RunState
from controller.platform.processes import FARM_MARKER
from controller.platform.programs import python_module
from controller.runtime.cluster import ray_environment
from tests.integration.farm import TestFarm, farm_up, training_sweep
from tests.support.scripted_agent import LABEL
from tests.support.waiting import eventually

pytestmark = [pytest.mark.integration, pytest.mark.farm, pytest.mark.long]

CELLS = 200
KILLS = 10
LAST_KILL = 120
"""Runs that are done at the last one, about; a controller that is back finishes 40 in a second."""
ROOT = Path(__file__).parents[2]


@pytest.fixture
def farm(tmp_path_factory: pytest.TempPathFactory) -> Iterator[TestFarm]:
    """A farm of its own: the scripted devices stay known."""
    with farm_up(tmp_path_factory.mktemp("killed"), "--no-agent") as farm:
        yield farm


@pytest.fixture
def scripted_agent(farm: TestFarm, tmp_path: Path) -> Iterator[None]:
    environment = {
        **farm.environment,
        **ray_environment(farm.home),
        "RAY_ADDRESS": farm.cluster.ray_address,
        FARM_MARKER: farm.cluster.instance,
        "PYTHONPATH": str(ROOT),
    }
    command = python_module("tests.support.scripted_agent", str(tmp_path))
    process = subprocess.Popen(command, env=environment, cwd=ROOT)
    try:
        eventually(lambda: "scripted-0" in farm.cli("device", "list").out, "its devices")
        yield
    finally:
        process.kill()
        process.wait()


@pytest.mark.usefixtures("scripted_agent")
def test_killed_ten_times_in_a_sweep_of_two_hundred_cells(farm: TestFarm) -> None:
    # As many knob values as cells; nothing is built of them.
    steps = list(range(1, CELLS + 1))
    sweep_id = farm.submit(training_sweep("killed-often", steps, devices=f"{LABEL} == yes"))
    killed: list[int] = []
    for kill in range(KILLS):
        reached = LAST_KILL * kill // KILLS + 5
        eventually(lambda: done(farm, sweep_id) >= reached, f"{reached} runs done")  # noqa: B023
        victim = farm.the_process("ray::Controller")
        killed.append(victim.pid)
        victim.send_signal(signal.SIGKILL)
        assert done(farm, sweep_id) < CELLS, "each kill strikes while the sweep runs"
        eventually(lambda: back(farm, killed), "the controller's return")
    assert farm.cli("sweep", "watch", sweep_id).status == 0

    assert len(set(killed)) == KILLS
    runs = farm.runs(sweep_id)
    assert len({run.cell.key for run in runs}) == len(runs) == CELLS
    assert {run.state for run in runs} == {RunState.DONE}
    results = farm.cli("results", "list", "--sweep", sweep_id, "--json").json
    counted = Counter(result["cell_key"] for result in results if result["counted"])
    assert counted == {run.cell.key: 1 for run in runs}


def done(farm: TestFarm, sweep_id: str) -> int:
    return sum(run.state is RunState.DONE for run in farm.runs(sweep_id))


def back(farm: TestFarm, killed: list[int]) -> bool:
    """Whether a controller serves that has not been killed."""
    pid = farm.home.endpoint().pid
    return pid not in killed and Path(f"/proc/{pid}").exists() and pid != os.getpid()
