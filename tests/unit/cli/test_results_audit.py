"""`benchfarm results replicate --check` on a store in which all tries have ended; no farm is up."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from controller.contracts.audit import LATENCY, AuditCheck
from controller.contracts.catalog import load_catalog
from controller.contracts.records import SweepRecord
from controller.contracts.result import Measurement, Result, Validity
from controller.contracts.run import Run
from controller.contracts.sweep import Sweep
from controller.contracts.units import Unit
from controller.scheduling.audited import as_audited
from controller.scheduling.binding import runs_of
from controller.scheduling.expansion import cells_of
from controller.scheduling.replication import ReplicationPlan
from controller.scheduling.suite_plan import Place
from controller.store.sqlite import SqliteStore
from tests.support import store_examples
from tests.support.command_line import complaint_of, outcome_of

CATALOG = load_catalog()
MS = 1e-3
HONEST = (MS,) * 200
CACHED = (MS, MS / 5, MS / 5, MS / 5) * 50
CHECK = AuditCheck.CACHE


def sweep(scenario: str) -> Sweep:
    return Sweep(name="one", workload=("resnet18",), stack=("torch",), scenario=(scenario,))


def measure(store: SqliteStore, asked: Sweep, metrics: dict[str, Measurement], now: float) -> Run:
    """Store a sweep of one run that has been measured; return the run."""
    record = SweepRecord(sweep_id=asked.sweep_id(1), sweep=asked, generation=1, submitted_at=now)
    cells = [c.model_copy(update={"selector": asked.devices[0]}) for c in cells_of(asked, CATALOG)]
    (run,) = store.add_sweep(record, runs_of(asked, record.sweep_id, cells, now=now))
    granted = store_examples.grant(run, store_examples.CPU, now)
    result = Result(validity=Validity.VALID, metrics=metrics, environment={"threads": 2})
    reported = store_examples.report(granted.run, as_audited(result, run), now=now + 10)
    store.save_runs([granted, reported])
    return reported.run


def seconds(*samples: float) -> Measurement:
    return Measurement.of_samples(samples, Unit.SECONDS)


@pytest.fixture
def audited(tmp_path: Path) -> tuple[Path, Run]:
    """A home with a run, an audit of it that finds a cache, and then one that finds none."""
    store = SqliteStore.open(tmp_path / "store.sqlite")
    try:
        store.save_agent(store_examples.AGENT, [store_examples.CPU])
        answers = {"latency": seconds(*HONEST), "latency_p90": seconds(MS)}
        original = measure(store, sweep("single_stream"), answers, 1000.0)
        measure(store, sweep("training"), {"step_time": seconds(0.2)}, 1500.0)
        plan = ReplicationPlan(original, "any", CHECK)
        for session, times in ((1, CACHED), (2, HONEST)):
            for number in (1, 2):
                asked = plan.sweep(Place(plan.session(session), number, 0))
                measure(store, asked, {LATENCY: seconds(*times)}, 1e4 * session + 100 * number)
    finally:
        store.close()
    return tmp_path, original


def test_the_newest_audit_is_shown(audited: tuple[Path, Run]) -> None:
    home, run = audited
    words = ("results", "replicate", run.run_id[:8], "--check", "cache", "--tries", "2")
    said, _, status = outcome_of(home, *words)
    lines = said.splitlines()
    assert lines[0].endswith(f"2 tries, audit {run.run_id}-cache-2")
    assert status == 0
    assert lines[-1] == f"run {run.run_id} passes"
    (cache,) = [line for line in lines if line.startswith("cache: ")]
    assert cache.startswith(
        "cache: passes: repeated samples are answered 1.00× as fast as new ones"
    )
    assert any(line.startswith("claim: passes: ") for line in lines)


def test_a_cache_is_named_and_the_exit_status_says_so(audited: tuple[Path, Run]) -> None:
    home, run = audited
    path = home / "store.sqlite"
    store = SqliteStore.open(path)
    try:
        plan = ReplicationPlan(run, "any", CHECK)
        for number in (1, 2):
            asked = plan.sweep(Place(plan.session(3), number, 0))
            measure(store, asked, {LATENCY: seconds(*CACHED)}, 5e4 + 100 * number)
    finally:
        store.close()
    words = ("results", "replicate", run.run_id, "--check", "cache", "--tries", "2", "--json")
    said, complained, status = outcome_of(home, *words)
    found = json.loads(said)
    assert (status, found["passes"], found["check"]) == (1, False, "cache")
    by_name = {finding["name"]: finding for finding in found["findings"]}
    assert by_name["cache"]["verdict"] == "refused"
    assert by_name["cache"]["value"] == pytest.approx(5.0)
    assert [one["answers"] for one in found["tries"]] == [200, 200]
    assert "rule missed, cache: refused: answers are cached: " in complained


def test_an_audit_is_no_try_of_a_replication_and_none_is_audited(audited: tuple[Path, Run]) -> None:
    home, run = audited
    _, complained, status = outcome_of(home, "results", "replicate", run.run_id, "--tries", "1")
    assert status != 0
    assert f"cannot carry on session {run.run_id}-1 on " in complained
    listed = json.loads(outcome_of(home, "results", "list", "--json")[0])
    audits = [r for r in listed if r["knobs"].get("audit")]
    assert len(audits) == 4
    assert {r["validity"] for r in audits} == {"INVALID"}
    assert all(r["reasons"][0].startswith("audit cache: ") for r in audits)
    (training,) = [r["run_id"] for r in listed if r["scenario"] == "training"]
    check = ("results", "replicate", "--check", "cold-start")
    assert "under training, LoadGen issues no queries" in complaint_of(home, *check, training)
    assert "it is an audit's own run" in complaint_of(home, *check, audits[0]["run_id"])
