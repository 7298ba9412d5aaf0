"""`benchfarm results explain` on a store that no farm is up for."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from controller.contracts.result import Measurement
from controller.contracts.run import Run
from controller.contracts.units import Unit
from controller.store.sqlite import SqliteStore
from tests.support import store_examples
from tests.support.command_line import complaint_of, printed_by

STEPS_S = (0.25, 0.251, 0.249)
SLOW_S = 0.4


def _sweep(store: SqliteStore, generation: int, steps_s: tuple[float, ...], kernel: str) -> Run:
    """Store a sweep of repeats, each a little later; return its last run."""
    record = store_examples.sweep_record(generation=generation, repeats=len(steps_s))
    runs = store.add_sweep(record, store_examples.runs_for(record))
    for number, (run, step_s) in enumerate(zip(runs, steps_s, strict=True)):
        now = 10_000.0 * generation + 100 * number
        granted = store_examples.grant(run, store_examples.CPU, now)
        outcome = store_examples.result().model_copy(
            update={
                "metrics": {"step_time": Measurement(value=step_s, unit=Unit.SECONDS)},
                "environment": {"kernel": kernel, "threads": 2, "governor": None},
            }
        )
        store.save_runs([granted, store_examples.report(granted.run, outcome, now=now + 10)])
    return runs[-1]


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    home = tmp_path_factory.mktemp("explain")
    store = SqliteStore.open(home / "store.sqlite")
    try:
        store.save_agent(store_examples.AGENT, [store_examples.CPU, store_examples.PHONE])
        _sweep(store, 1, STEPS_S, "6.1.0-18")
        _sweep(store, 2, (SLOW_S,), "6.1.0-22")
        failed = store_examples.sweep_record(generation=3, repeats=1)
        (run,) = store.add_sweep(failed, store_examples.runs_for(failed))
        granted = store_examples.grant(run, store_examples.CPU, 40_000.0)
        store.save_runs([granted])
        for attempt in range(1, 4):
            again = store_examples.report(
                granted.run, store_examples.failure(), attempt, 40_010.0 + attempt
            )
            store.save_runs([again])
            if again.run.state.terminal:
                break
            granted = store_examples.grant(again.run, store_examples.CPU, 40_020.0 + attempt)
            store.save_runs([granted])
    finally:
        store.close()
    return home


def _run(generation: int, repeats: int, number: int = 0) -> str:
    record = store_examples.sweep_record(generation=generation, repeats=repeats)
    return store_examples.runs_for(record)[number].run_id


def test_the_first_line_says_how_much_and_then_why(home: Path) -> None:
    run = _run(2, 1)
    first, which, against, _, cause, evidence, *rest = printed_by(
        home, "results", "explain", run[:8]
    ).splitlines()
    assert first == "1.60× slower than the 3 runs before, 95 % [1.57, 1.63]"
    assert which.endswith(f"run {run}: step_time 400 ms; before 250 ms")
    assert against.startswith("compared with runs of the same cell and device: ")
    assert cause == " 1  other kernel: how much it does is not known"
    assert evidence == "      kernel: 6.1.0-18 → 6.1.0-22"
    missing = "not recorded now or before, so not compared: model_sha256, bundle, benchfarm"
    assert rest[-1].startswith(missing)


def test_json_has_the_same(home: Path) -> None:
    found = json.loads(printed_by(home, "results", "explain", _run(2, 1), "--json"))
    assert found["speed"] == "slower"
    assert found["interval"][0] < found["times_slower"] < found["interval"][1]
    (cause,) = found["causes"]
    assert cause == {
        "cause": "other kernel",
        "effect": "unknown",
        "at_most": None,
        "evidence": [
            {"fact": "kernel", "before": ["6.1.0-18"], "now": "6.1.0-22", "unit": None},
        ],
    }
    assert found["earlier"] == [_run(1, 3, number) for number in range(3)]


def test_a_sweep_may_be_named_and_an_early_run_has_its_own_repeats(home: Path) -> None:
    sweep = store_examples.sweep_record(generation=2, repeats=1).sweep_id
    early = _run(1, 3, 2)
    first, *_ = printed_by(home, "results", "explain", early, "--against", sweep).splitlines()
    assert first.startswith("1.61× faster than the run before; one run has no interval")
    lines = printed_by(home, "results", "explain", early).splitlines()
    assert lines[0].startswith("no difference is shown: 1.0")
    assert lines[2].startswith("compared with repeats of its own sweep: ")


@pytest.mark.parametrize(
    ("generation", "repeats", "seen"),
    [(1, 3, "no other result before is VALID or DISTURBED"), (3, 1, "it has no result")],
)
def test_what_cannot_be_compared_is_one_line(
    home: Path, generation: int, repeats: int, seen: str
) -> None:
    complaint = complaint_of(home, "results", "explain", _run(generation, repeats))
    assert seen in complaint
    assert "there is no such run" in complaint_of(home, "results", "explain", "nope")
