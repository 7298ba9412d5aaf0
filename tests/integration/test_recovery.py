"""Processes that are really killed in the middle of a sweep: every cell still ends exactly once."""

from __future__ import annotations

import signal

import pytest

from controller.contracts.result import Blame
from controller.contracts.run import AttemptState, RunState
from controller.contracts.wire import RunEvent
from tests.integration.farm import TestFarm, training_sweep

pytestmark = pytest.mark.integration

STEPS = 25
"""Enough that a run is still in its steps when it is struck."""


@pytest.mark.parametrize(
    ("victim", "ending"),
    [
        ("agents.worker", AttemptState.FAILED),
        ("ray::AgentActor", AttemptState.LOST),
        ("ray::Controller", None),
    ],
)
def test_kill_in_mid_sweep(farm: TestFarm, victim: str, ending: AttemptState | None) -> None:
    knobs = {"image_size": 96, "num_classes": 8, "warmup_steps": 0, "steps": STEPS}
    name = "killed-" + victim.split(".")[-1].split("::")[-1].lower()
    url = farm.home.endpoint().url
    sweep_id = farm.submit(training_sweep(name, knobs=knobs, repeats=2))
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


def in_the_middle(event: RunEvent) -> bool:
    """Whether a run is in its steps and not about to end."""
    progress = event.progress
    return progress is not None and progress.phase == "training" and progress.done < STEPS // 2
