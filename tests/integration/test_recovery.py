"""Processes that are really killed in the middle of a sweep: every cell still ends exactly once."""

from __future__ import annotations

import fcntl
import signal
from pathlib import Path

import pytest

from controller.contracts.errors import FarmSilent
from controller.contracts.result import Blame
from controller.contracts.run import AttemptState, RunState
from controller.contracts.wire import RunEvent
from controller.runtime.client import FarmClient, Timings
from tests.integration.farm import SMALLEST, TestFarm, endless_sweep, training_sweep
from tests.support.waiting import eventually

pytestmark = [pytest.mark.integration, pytest.mark.farm]

STEPS = 12
"""Enough that a run is still in its steps when it is struck."""
KNOBS = {**SMALLEST, "batch_size": 1, "threads": 1, "steps": STEPS}
IMPATIENT = Timings(restart_s=0.0)
"""The command line waits for a minute."""


@pytest.mark.parametrize(
    ("victim", "ending"),
    [
        pytest.param("agents.worker", AttemptState.FAILED, marks=pytest.mark.long),
        pytest.param("ray::AgentActor", AttemptState.LOST, marks=pytest.mark.long),
        ("ray::Controller", None),
    ],
)
def test_kill_in_mid_sweep(farm: TestFarm, victim: str, ending: AttemptState | None) -> None:
    name = "killed-" + victim.split(".")[-1].split("::")[-1].lower()
    url = farm.home.endpoint().url
    sweep_id = farm.submit(training_sweep(name, knobs=KNOBS, repeats=2))
    with farm.events(sweep_id) as events:
        struck = next(event for event in events if in_the_middle(event))
        farm.the_process(victim).send_signal(signal.SIGKILL)
    assert farm.cli("sweep", "watch", sweep_id).status == 0

    runs = farm.runs(sweep_id)
    assert [run.state for run in runs] == [RunState.DONE] * 2
    results = farm.cli("results", "list", "--sweep", sweep_id, "--json").json
    assert sorted(r["run_id"] for r in results if r["counted"]) == sorted(r.run_id for r in runs)
    (hit,) = (run for run in runs if run.run_id == struck.run_id)
    states = [attempt.state for attempt in hit.attempts]
    assert states == [*([ending] if ending else []), AttemptState.SUCCEEDED]
    failures = farm.cli("results", "list", "--sweep", sweep_id, "--failures", "--json").json
    expected = [Blame.HARNESS] if ending is AttemptState.FAILED else []
    assert [failure["blame"] for failure in failures] == expected
    assert farm.processes("agents.worker") == []
    assert farm.home.endpoint().url == url, "Prometheus goes on asking there"


@pytest.mark.long
def test_a_controller_that_cannot_start_again_is_tried_until_it_can(farm: TestFarm) -> None:
    victim = farm.the_process("ray::Controller")
    store = farm.home.store
    with store.with_name(f"{store.name}.lock").open("a") as lock:
        victim.send_signal(signal.SIGKILL)
        fcntl.flock(lock, fcntl.LOCK_EX)  # as soon as it is dead
        eventually(lambda: failed_starts(farm, "another process writes to it") >= 1, "an attempt")
    eventually(lambda: farm.home.endpoint().pid != victim.pid, "the controller's return")
    assert farm.cli("up").status == 0
    assert farm.the_process("ray::Controller").pid == farm.home.endpoint().pid


@pytest.mark.long
def test_an_agent_that_cannot_start_again_is_tried_until_it_can(farm: TestFarm) -> None:
    victim, token = farm.the_process("ray::AgentActor"), farm.home.metrics_token
    former = incarnation(farm)
    aside = token.with_suffix(".aside")
    token.rename(aside)
    try:
        victim.send_signal(signal.SIGKILL)
        eventually(lambda: failed_starts(farm, "the agent cannot start now") >= 2, "attempts")
    finally:
        aside.rename(token)
    eventually(lambda: incarnation(farm) not in ("", former), "the agent's return")
    assert farm.the_process("ray::AgentActor") != victim


def test_a_controller_that_is_stopped_is_said_by_whoever_asks_and_goes_on(
    farm: TestFarm,
) -> None:
    controller = farm.the_process("ray::Controller")
    sweep_id = farm.submit(endless_sweep("stopped"))
    silent = "the controller has not answered for 5 s"
    controller.suspend()
    try:
        listed = farm.cli("device", "list")
        with pytest.raises(FarmSilent, match=silent):
            FarmClient(farm.home, timings=IMPATIENT).cancel(sweep_id)
    finally:
        controller.resume()
    assert (listed.status, listed.err) == (0, f"benchfarm: {silent}\n")
    assert farm.cli("sweep", "cancel", sweep_id).status == 0
    assert {run.state for run in farm.runs(sweep_id)} == {RunState.CANCELLED}
    assert farm.the_process("ray::Controller") == controller


def failed_starts(farm: TestFarm, why: str) -> int:
    """Return how many actors have said so that they could not start."""
    logs = Path(farm.cluster.temp_dir).glob("session_latest/logs/worker-*.err")
    return sum(why in log.read_text() for log in logs)


def incarnation(farm: TestFarm) -> str:
    """Return the incarnation of the farm's agent if it is online, else ""."""
    (listed,) = farm.cli("agent", "list", "--json").json
    return str(listed["agent"]["incarnation"]) if listed["online"] else ""


def in_the_middle(event: RunEvent) -> bool:
    """Whether a run is in its steps and not about to end."""
    progress = event.progress
    return progress is not None and progress.phase == "training" and progress.done < STEPS // 2
