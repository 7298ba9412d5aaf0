"""`benchfarm results replicate` on a store in which all tries have ended, with no farm up."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from controller.contracts.catalog import load_catalog
from controller.contracts.records import ADMIN, SweepRecord
from controller.contracts.result import Measurement, Result, Validity
from controller.contracts.run import Run
from controller.contracts.sweep import Sweep
from controller.contracts.units import Unit
from controller.scheduling.binding import runs_of
from controller.scheduling.expansion import cells_of
from controller.scheduling.replication import ReplicationPlan
from controller.scheduling.suite_plan import Place
from controller.store.sqlite import SqliteStore
from tests.support import store_examples
from tests.support.command_line import complaint_of, outcome_of

CATALOG = load_catalog()
SWEEP = Sweep(name="one", workload=("resnet18",), stack=("torch",), scenario=("training",))
ARCHITECTURE = {"architecture": "x86_64"}


def _measured(
    store: SqliteStore,
    sweep: Sweep,
    step_s: float,
    now: float,
    generation: int = 1,
    user: str = ADMIN,
) -> Run:
    """Store a sweep of one run that has been measured; return the run."""
    record = SweepRecord(
        sweep_id=sweep.sweep_id(generation),
        sweep=sweep,
        generation=generation,
        submitted_at=now,
        user=user,
    )
    cells = [c.model_copy(update={"selector": sweep.devices[0]}) for c in cells_of(sweep, CATALOG)]
    (run,) = store.add_sweep(record, runs_of(sweep, record.sweep_id, cells, now=now))
    granted = store_examples.grant(run, store_examples.CPU, now)
    metrics = {"step_time": Measurement(value=step_s, unit=Unit.SECONDS)}
    result = Result(validity=Validity.VALID, metrics=metrics, environment={"threads": 2})
    reported = store_examples.report(granted.run, result, now=now + 10)
    store.save_runs([granted, reported])
    return reported.run


@pytest.fixture
def homes(tmp_path: Path) -> tuple[Path, Run]:
    """A home with a run, and two replications of it: the first is too far apart."""
    store = SqliteStore.open(tmp_path / "store.sqlite")
    try:
        store.save_agent(store_examples.AGENT, [store_examples.CPU])
        original = _measured(store, SWEEP, 0.25, 1000.0)
        plan = ReplicationPlan(original, "any")
        for session, steps_s in ((1, (0.25, 0.27)), (2, (0.251, 0.252, 0.249))):
            for number, step_s in enumerate(steps_s, start=1):
                sweep = plan.sweep(Place(plan.session(session), number, 0))
                _measured(store, sweep, step_s, 1000.0 * (10 * session + number))
    finally:
        store.close()
    return tmp_path, original


def test_the_newest_replication_is_judged(homes: tuple[Path, Run]) -> None:
    home, run = homes
    said, _, status = outcome_of(home, "results", "replicate", run.run_id[:8], "--tries", "3")
    assert status == 0
    lines = said.splitlines()
    assert lines[0].endswith(f"3 tries, replication {run.run_id}-2")
    assert lines[-1] == "replicates within 5 %"
    assert "step time: within 1.20 %" in lines
    assert "replication: met" in lines
    assert "+0.8%" in said


def test_fewer_tries_than_there_are_leave_none_out(homes: tuple[Path, Run]) -> None:
    home, run = homes
    words = ("results", "replicate", run.run_id, "--tries", "1", "--json")
    found = json.loads(outcome_of(home, *words)[0])
    assert [one["value"] for one in found["tries"]] == [0.251, 0.252, 0.249]


def test_a_fleet_that_has_changed_since_measures_nothing_again(homes: tuple[Path, Run]) -> None:
    home, run = homes
    store = SqliteStore.open(home / "store.sqlite")
    try:
        twin = store_examples.CPU.device.model_copy(update={"id": "f" * 32})
        both = [store_examples.CPU, store_examples.CPU.model_copy(update={"device": twin})]
        store.save_agent(store_examples.AGENT, both)
    finally:
        store.close()
    words = ("results", "replicate", run.run_id, "--tries", "3", "--json")
    said, complained, status = outcome_of(home, *words)
    assert status == 0, complained
    assert json.loads(said)["session"] == f"{run.run_id}-2"


@pytest.mark.parametrize("user", [ADMIN, "bob"])
def test_a_try_that_is_submitted_again_is_one_try(homes: tuple[Path, Run], user: str) -> None:
    """Nor does it take the place of the first: else the better of both could be chosen."""
    home, run = homes
    plan = ReplicationPlan(run, "any")
    store = SqliteStore.open(home / "store.sqlite")
    try:
        for number in (1, 3):
            sweep = plan.sweep(Place(plan.session(2), number, 0))
            _measured(store, sweep, 0.3, 50_000.0 + number, generation=2, user=user)
    finally:
        store.close()
    words = ("results", "replicate", run.run_id, "--tries", "3", "--json")
    said, complained, status = outcome_of(home, *words)
    assert status == 0, complained
    found = json.loads(said)
    assert found["replicates"]
    assert [one["number"] for one in found["tries"]] == [1, 2, 3]
    assert [one["value"] for one in found["tries"]] == [0.251, 0.252, 0.249]


def test_json_is_all_that_is_on_standard_output(homes: tuple[Path, Run]) -> None:
    home, run = homes
    said, complained, status = outcome_of(
        home, "results", "replicate", run.run_id, "--tries", "3", "--json"
    )
    found = json.loads(said)
    assert (status, found["replicates"], found["value"]) == (0, True, 0.25)
    assert [one["value"] for one in found["tries"]] == [0.251, 0.252, 0.249]
    assert "3 tries" in complained


def test_mistakes_are_one_line(homes: tuple[Path, Run]) -> None:
    home, run = homes
    assert "there is no such run" in complaint_of(home, "results", "replicate", "nope")
    wrong = complaint_of(home, "results", "replicate", run.run_id, "--wait", "5")
    assert "it is not a length of time" in wrong
