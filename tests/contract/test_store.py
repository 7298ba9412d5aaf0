"""What every store must do, whatever it is built on."""

from __future__ import annotations

import itertools
import math
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from controller.contracts.base import Scalar
from controller.contracts.capability import Verdict
from controller.contracts.device import (
    Booking,
    DeviceHistoryEntry,
    DeviceKind,
    DeviceLife,
    DeviceState,
    Hold,
)
from controller.contracts.errors import StoreConflict
from controller.contracts.pair import Pair
from controller.contracts.profile import ProfileSummary, TopPrimitive
from controller.contracts.records import Token
from controller.contracts.result import Blame, Failure, Result, Validity
from controller.contracts.run import (
    WAITING_S,
    AttemptState,
    OutcomeRecord,
    Run,
    RunChange,
    RunState,
)
from controller.contracts.sweep import PairedCandidate
from controller.metrics.newest import NewestCapabilities, NewestResults
from controller.scheduling.binding import runs_of
from controller.scheduling.lifecycle import (
    Cancelled,
    Event,
    Granted,
    LeaseLost,
    Reported,
    advance,
)
from controller.scheduling.policy import RetryPolicy
from controller.stats.medians import median_of_runs
from controller.store.newest import TRIES_OF_CELL
from controller.store.protocol import Store, StoreReader
from controller.store.sqlite import SqliteStore
from tests.support import builders
from tests.support.store_examples import (
    AGENT,
    CPU,
    PHONE,
    failure,
    grant,
    lose,
    report,
    result,
    runs_for,
    sweep_record,
)

CATALOG = builders.catalog()
"""It doesn't have the workload of these runs, so that each of their knobs is work."""


class Reader(StoreReader, Protocol):
    def close(self) -> None: ...


@dataclass(frozen=True, slots=True)
class Implementation:
    open: Callable[[Path], Store]
    open_reader: Callable[[Path], Reader]
    half_written: Callable[[Path], AbstractContextManager[None]]
    """A write transaction that has changed all runs' states and hasn't committed."""


@contextmanager
def _sqlite_half_written(path: Path) -> Iterator[None]:
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        connection.execute("BEGIN IMMEDIATE")
        rows = connection.execute("UPDATE runs SET state = 'failed'").rowcount
        rows += connection.execute("UPDATE unleased SET spans = '[]'").rowcount
        assert rows > 0
        yield
        connection.execute("ROLLBACK")


SQLITE = Implementation(SqliteStore.open, SqliteStore.open_reader, _sqlite_half_written)


@pytest.fixture(params=[pytest.param(SQLITE, id="sqlite")])
def implementation(request: pytest.FixtureRequest) -> Implementation:
    chosen = request.param
    assert isinstance(chosen, Implementation)
    return chosen


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "store ü?#%.sqlite"


@pytest.fixture
def store(implementation: Implementation, path: Path) -> Iterator[Store]:
    with closing(implementation.open(path)) as store:
        store.save_agent(AGENT, [CPU, PHONE])
        yield store


@pytest.fixture
def runs(store: Store) -> list[Run]:
    record = sweep_record()
    return store.add_sweep(record, runs_for(record))


def test_a_new_store_is_empty(implementation: Implementation, path: Path) -> None:
    with closing(implementation.open(path)) as store:
        assert store.sweeps() == []
        assert store.runs() == []
        assert store.run("nobody") is None
        assert store.results() == []
        assert store.failures() == []
        assert store.newest_results(CATALOG) == []
        assert store.fleet() == ([], [])


def test_a_sweep_is_added_once(store: Store) -> None:
    record = sweep_record()
    runs = runs_for(record)
    assert store.add_sweep(record, runs[:2]) == runs[:2]
    assert store.add_sweep(record, runs) == runs[2:]
    assert store.add_sweep(record, runs) == []
    assert store.sweeps() == [record]
    assert store.runs() == runs


def test_adding_a_sweep_again_leaves_its_runs_as_they_are(store: Store, runs: list[Run]) -> None:
    leased = grant(runs[0])
    store.save_runs([leased])
    assert store.add_sweep(sweep_record(), runs) == []
    assert store.runs() == [leased.run, *runs[1:]]


def test_a_run_s_id_that_another_sweep_has_takes_nothing_from_it(
    store: Store, runs: list[Run]
) -> None:
    other = sweep_record("other")
    same = [run.model_copy(update={"sweep_id": other.sweep_id}) for run in runs]
    with pytest.raises(StoreConflict):
        store.add_sweep(other, same[:1])
    assert store.runs() == runs
    assert [record.sweep_id for record in store.sweeps()] == [runs[0].sweep_id]


def test_a_cell_is_stored_once_however_many_runs_it_has(store: Store, path: Path) -> None:
    selector = f'device == "{"x" * 500}"'
    before = _size(path)
    record = sweep_record("long", repeats=1000)
    long = [
        run.model_copy(update={"cell": run.cell.model_copy(update={"selector": selector})})
        for run in runs_for(record)
    ]
    assert store.add_sweep(record, long) == long
    assert _size(path) - before < len(long) * len(selector), "less than the selectors alone"
    assert store.runs(record.sweep_id) == long


def _size(path: Path) -> int:
    with closing(sqlite3.connect(path)) as store:
        store.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    return path.stat().st_size


def test_the_queue_is_in_order_of_submission_then_position(store: Store) -> None:
    first = sweep_record("zz-first")
    second = sweep_record("aa-second").model_copy(update={"submitted_at": first.submitted_at - 9})
    for record in (first, second):
        store.add_sweep(record, list(reversed(runs_for(record))))
    assert store.sweeps() == [first, second]
    assert store.runs() == runs_for(first) + runs_for(second)
    assert store.runs(second.sweep_id) == runs_for(second)
    assert store.runs("nobody") == []


def test_runs_round_trip_in_every_state(store: Store) -> None:
    record = sweep_record(repeats=5)
    queued, *others = store.add_sweep(record, runs_for(record))
    leased, retried, done, failed = [grant(run).run for run in others]
    retried = grant(lose(retried).run, PHONE, now=2031.0).run
    changes = [
        RunChange(leased),
        RunChange(retried),
        report(done, result()),
        report(failed, failure()),
    ]
    store.save_runs(changes)
    expected = [queued, *(change.run for change in changes)]
    assert store.runs() == expected
    assert [run.state for run in expected] == [
        RunState.QUEUED,
        RunState.LEASED,
        RunState.LEASED,
        RunState.DONE,
        RunState.FAILED,
    ]
    assert [attempt.state for attempt in retried.attempts] == [
        AttemptState.LOST,
        AttemptState.LEASED,
    ]
    assert [store.run(run.run_id) for run in expected] == expected


def test_open_runs_are_those_not_terminal(store: Store, runs: list[Run]) -> None:
    done, leased, queued = runs
    leased = grant(leased).run
    store.save_runs([RunChange(leased), report(grant(done).run, result())])
    assert store.runs(open_only=True) == [leased, queued]
    assert store.runs(queued.sweep_id, open_only=True) == [leased, queued]
    assert store.runs("nobody", open_only=True) == []


def test_the_same_change_twice_is_kept_once(store: Store, runs: list[Run]) -> None:
    changes = [
        report(grant(runs[0]).run, result()),
        report(grant(runs[1]).run, failure()),
    ]
    for _ in range(2):
        store.save_runs(changes)
    store.save_runs([*changes, *changes])
    assert store.runs() == [changes[0].run, changes[1].run, runs[2]]
    assert len(store.results()) == 1
    assert len(store.failures()) == 1


def test_a_late_result_is_kept_beside_the_one_that_counts(store: Store, runs: list[Run]) -> None:
    given_up = lose(grant(runs[0]).run).run
    early = report(given_up, result(step_s=9.0), attempt=1, now=2040.0)
    counted = report(grant(early.run, PHONE, now=2050.0).run, result(), attempt=2, now=2060.0)
    store.save_runs([early, counted])
    assert [(r.attempt, r.counted, r.device) for r in store.results()] == [
        (2, True, "phone-1"),
        (1, False, "host-1"),
    ]
    assert store.run(runs[0].run_id) == counted.run


def test_a_late_result_of_an_attempt_given_up_for_good_is_kept_beside_its_failure(
    store: Store, runs: list[Run]
) -> None:
    once = lose(grant(runs[0]).run).run
    twice = lose(grant(once, now=2040.0).run, now=2070.0)
    late = report(twice.run, result(), attempt=2, now=2080.0)
    store.save_runs([twice])
    store.save_runs([late])
    assert [(r.attempt, r.counted) for r in store.results()] == [(2, False)]
    assert [(f.attempt, f.counted, f.kind) for f in store.failures()] == [(2, True, "lost")]
    assert store.run(runs[0].run_id) == late.run


def _counted(run: Run, attempt: int, step_s: float) -> RunChange:
    """Return a change no lifecycle would make."""
    record = OutcomeRecord(
        run_id=run.run_id,
        attempt=attempt,
        outcome=result(step_s),
        counted=True,
        started_at=2050.0,
        recorded_at=2060.0,
    )
    return RunChange(run, record)


def test_two_results_that_count_are_refused_and_nothing_of_the_call_is_kept(
    store: Store, runs: list[Run]
) -> None:
    retried = grant(lose(grant(runs[0]).run).run, now=2040.0).run
    done = report(retried, result(), attempt=2, now=2060.0)
    store.save_runs([done])
    other = report(grant(runs[1]).run, result())
    with pytest.raises(StoreConflict):
        store.save_runs([other, _counted(done.run, attempt=1, step_s=0.5)])
    assert [(r.run_id, r.attempt) for r in store.results()] == [(done.run.run_id, 2)]
    assert store.runs() == [done.run, *runs[1:]]


def test_an_outcome_is_never_overwritten(store: Store, runs: list[Run]) -> None:
    run = grant(runs[0]).run
    store.save_runs([_counted(run, attempt=1, step_s=0.25)])
    kept = store.results()
    with pytest.raises(StoreConflict, match=f"run {run.run_id} attempt 1"):
        store.save_runs([_counted(run, attempt=1, step_s=0.5)])
    assert store.results() == kept


def test_an_attempt_on_an_unknown_device_is_refused(store: Store, runs: list[Run]) -> None:
    stranger = CPU.model_copy(update={"device": CPU.device.model_copy(update={"id": "stranger"})})
    with pytest.raises(StoreConflict):
        store.save_runs([grant(runs[0], stranger)])
    assert store.runs() == runs


def test_a_result_comes_back_whole(store: Store, runs: list[Run]) -> None:
    measured = result(validity=Validity.INVALID)
    store.save_runs([report(grant(runs[1]).run, measured)])
    (stored,) = store.results(runs[0].sweep_id)
    assert stored.metrics == measured.metrics
    assert stored.environment == measured.environment
    assert stored.model_dump(mode="json") == {
        "run_id": runs[1].run_id,
        "sweep_id": runs[1].sweep_id,
        "cell_key": runs[1].cell.key,
        "repeat": 1,
        "attempt": 1,
        "device": "host-1",
        "device_name": "host-1",
        "device_kind": "cpu_host",
        "virtual": False,
        "workload": "retinanet",
        "stack": "eager",
        "scenario": "training",
        "knobs": {"batch": 2, "channels_last": True, "dtype": "bf16", "lr": 0.1},
        "versus": None,
        "started_at": "1970-01-01T00:33:20.500+00:00",
        "recorded_at": "1970-01-01T00:33:21.500+00:00",
        "counted": True,
        "validity": "INVALID",
        "reasons": ["another process took 31 % of the CPU"],
        "metrics": {
            "step_time": {"value": 0.25, "unit": "s", "samples": [0.25, 0.35, 0.1]},
            "throughput": {"value": 8.0, "unit": "images/s", "samples": []},
        },
        "tags": [],
        "environment": {
            "governor": None,
            "threads": 2,
            "load": 0.5,
            "numa": [0, 1],
            "smt": False,
        },
        "artefacts": {"profile": "artefacts/profile.json"},
        "checksums": {},
        "pairs": [],
        "profile": None,
    }


def test_a_profile_stays_the_newest_beside_a_newer_result_without_one(store: Store) -> None:
    record = sweep_record("profiled", repeats=1)
    (run,) = runs_for(record)
    cell = run.cell.model_copy(update={"profiled": True})
    (profiled,) = runs_of(record.sweep, record.sweep_id, [cell], now=1000.5)
    assert (profiled.cell.key, profiled.run_id) != (run.cell.key, run.run_id)
    top = TopPrimitive(
        primitive="convolution", direction="FWD_D", calls=2, seconds=0.5, share=1, efficiency=0.9
    )
    summary = ProfileSummary(steps=3, step_s=1.5, efficiency=0.9, headroom_s=0.25, top=(top,))
    measured = result().model_copy(update={"profile": summary})
    store.save_agent(AGENT, [CPU])
    assert store.add_sweep(record, [profiled, run]) == [profiled, run]
    store.save_runs([report(grant(profiled).run, measured)])
    store.save_runs([report(grant(run).run, result())])
    assert {kept.cell.profiled for kept in store.runs(record.sweep_id)} == {True, None}
    assert [stored.profile for stored in store.results(record.sweep_id)] == [summary, None]
    assert [newest.profile for newest in store.newest_results(CATALOG)] == [summary, None]
    (newest,) = NewestResults(CATALOG, store.newest_results(CATALOG)).snapshot().values()
    assert newest.valid
    assert newest.valid.profile is None
    assert newest.profiled
    assert newest.profiled.profile == summary


def test_a_paired_comparison_comes_back_whole(store: Store) -> None:
    record = sweep_record("paired", repeats=1)
    (run,) = runs_for(record)
    versus = PairedCandidate(stack="ipex", knobs={"dtype": "fp32", "fused": True}, width=0.02)
    cell = run.cell.model_copy(update={"versus": versus})
    assert cell.key != run.cell.key
    (paired,) = runs_of(record.sweep, record.sweep_id, [cell], now=1000.5)
    store.save_agent(AGENT, [CPU])
    assert store.add_sweep(record, [paired]) == [paired]
    pairs = (Pair(a=(0.25, 0.5), b=(0.125,), a_first=True), Pair(a=(1.0,), b=(2.0,), a_first=False))
    store.save_runs([report(grant(paired).run, result().model_copy(update={"pairs": pairs}))])
    (stored,) = store.results(record.sweep_id)
    assert (stored.versus, stored.pairs) == (versus, pairs)
    (again,) = store.runs(record.sweep_id)
    assert again.cell == cell
    assert store.newest_results(CATALOG) == [], "it is a result of two cells"


def test_a_failure_comes_back_whole(store: Store, runs: list[Run]) -> None:
    store.save_runs([report(grant(runs[0], PHONE).run, failure(Blame.DEVICE))])
    (stored,) = store.failures(runs[0].sweep_id)
    said = stored.model_dump(mode="json")
    assert (said["device"], said["device_kind"], said["virtual"]) == ("phone-1", "android", True)
    assert {name: said[name] for name in ("blame", "kind", "message", "output")} == {
        "blame": "device",
        "kind": "signal",
        "message": "killed",
        "output": "töö\n\x00",
    }
    assert (stored.exit_code, stored.signal) == (None, 9)
    assert store.results() == []


def test_results_and_failures_are_oldest_first_and_by_sweep(store: Store, runs: list[Run]) -> None:
    other = sweep_record("other")
    others = store.add_sweep(other, runs_for(other))
    for run in (others[1], runs[2], runs[0]):
        store.save_runs([report(grant(run).run, result())])
    for run in (others[2], runs[1]):
        store.save_runs([report(grant(run).run, failure())])
    assert [r.run_id for r in store.results()] == [r.run_id for r in (others[1], runs[2], runs[0])]
    assert [r.run_id for r in store.results(runs[0].sweep_id)] == [runs[2].run_id, runs[0].run_id]
    assert [f.run_id for f in store.failures()] == [others[2].run_id, runs[1].run_id]
    assert [f.run_id for f in store.failures(other.sweep_id)] == [others[2].run_id]


@pytest.mark.parametrize("step_s", [1.0, -1.0], ids=["a clock", "a clock that is set back"])
def test_newest_capabilities_are_of_the_newest_that_says_something(
    store: Store, step_s: float
) -> None:
    record = sweep_record(repeats=8)
    plain = runs_for(record)
    asked: list[dict[str, Scalar]] = [{"delegate": "xnnpack", "numerics": "int8"}] * 5
    knobs: list[dict[str, Scalar]] = [
        *asked,
        {"delegate": "none"},
        {"use_gpu": True, "use_xnnpack": True},
        {"lr": 0.1},
    ]
    pairs = zip(plain, knobs, strict=True)
    cells = [
        (run, run.cell.model_copy(update={"knobs": {**of, "seed": n}}))
        for n, (run, of) in enumerate(pairs)
    ]
    runs = store.add_sweep(record, [r.model_copy(update={"cell": cell}) for r, cell in cells])
    build = {"fingerprint": "x/1"}
    told = result().model_copy(
        update={"environment": {**build, "graph_nodes": 4, "delegated_nodes": 1}}
    )
    refused = {"blame": Blame.DEVICE, "kind": "delegate_refused", "environment": build}
    fails = failure().model_copy(update=refused)
    lost = failure().model_copy(update={"blame": Blame.HARNESS, "kind": "lost"})
    outcomes: list[Result | Failure] = [
        *(told, fails, told, lost, failure(Blame.USER)),
        *(told, fails, told),
    ]
    pairs_of = zip(runs, outcomes, strict=True)
    store.save_runs(
        [
            report(grant(run).run, outcome, now=3000.0 + n * step_s)
            for n, (run, outcome) in enumerate(pairs_of)
        ]
    )
    found = store.newest_capabilities()
    newest = NewestCapabilities(found).snapshot().values()
    assert [(one.delegate, one.verdict, one.build, one.run_id) for one in newest] == [
        ("xnnpack", Verdict.FALLS_BACK, "x/1", runs[2].run_id),
        ("none", Verdict.WORKS, "x/1", runs[5].run_id),
        ("gpu", Verdict.FAILS, "x/1", runs[6].run_id),
    ]
    assert len(found) == 4, "of each key the newest result and the newest failure"


def test_newest_results_are_one_of_each_kind_and_validity(store: Store) -> None:
    record = sweep_record(repeats=9)
    plain = runs_for(record)
    formats = [{"precision": "fp32"}] * 5 + [{"precision": "bf16"}, {"numerics": "int8"}, {}, {}]
    cells = [plain[0].cell.model_copy(update={"knobs": {**knobs, "lr": 0.1}}) for knobs in formats]
    pairs = zip(plain, cells, strict=True)
    runs = store.add_sweep(record, [run.model_copy(update={"cell": cell}) for run, cell in pairs])
    lost = lose(grant(runs[4]).run)
    reports = [
        report(grant(runs[0]).run, result(1.0)),
        report(grant(runs[1]).run, result(2.0)),
        report(grant(runs[2]).run, result(3.0, Validity.INVALID), now=2007.0),
        report(grant(runs[3]).run, failure()),
        report(lost.run, result(4.0)),  # late
        report(grant(runs[5]).run, result(5.0)),
        report(grant(runs[6]).run, result(6.0)),
        report(grant(runs[7]).run, result(7.0)),
        report(grant(runs[8], PHONE).run, result(8.0)),
    ]
    store.save_runs(reports)
    newest = store.newest_results(CATALOG)
    assert [(r.device, r.precision, r.metrics["step_time"].value) for r in newest] == [
        ("host-1", "fp32", 1.0),  # a repeat of the next
        ("host-1", "fp32", 2.0),
        ("host-1", "fp32", 3.0),
        ("host-1", "bf16", 5.0),
        ("host-1", "int8", 6.0),
        ("host-1", None, 7.0),
        ("phone-1", None, 8.0),
    ]
    assert [r.validity for r in newest[1:3]] == [Validity.VALID, Validity.INVALID]
    invalid = newest[2]
    assert (invalid.workload, invalid.stack, invalid.scenario) == ("retinanet", "eager", "training")
    assert invalid.recorded_at == 2007.0
    assert {m.samples for m in invalid.metrics.values()} == {()}
    assert {name: m.unit for name, m in invalid.metrics.items()} == {
        name: m.unit for name, m in result().metrics.items()
    }


def test_newest_results_are_told_apart_by_work(store: Store) -> None:
    record = sweep_record(repeats=3)
    plain = runs_for(record)
    knobs: list[dict[str, Scalar]] = [{"num_classes": 264}, {"num_classes": 8}, {"num_classes": 8}]
    cells = [plain[0].cell.model_copy(update={"knobs": one}) for one in knobs]
    cells[2] = cells[2].model_copy(update={"profiled": True})
    pairs = zip(plain, cells, strict=True)
    runs = store.add_sweep(record, [run.model_copy(update={"cell": cell}) for run, cell in pairs])
    store.save_runs([report(grant(r).run, result(1.0 + n)) for n, r in enumerate(runs)])
    newest = store.newest_results(CATALOG)
    assert [(r.knobs, r.profiled) for r in newest] == [
        ({"num_classes": 264}, False),
        ({"num_classes": 8}, False),
        ({"num_classes": 8}, True),
    ]


def test_newest_results_are_told_apart_by_mode(store: Store) -> None:
    """A newer run of speed alone took away what a run of mode submission had said of quality."""
    known = {"workload": "resnet", "stack": "torch"}  # in the catalogue: a mode is no work
    for generation, mode in enumerate(("submission", "accuracy", "performance"), 1):
        record = sweep_record(repeats=1, generation=generation)
        plain = runs_for(record)
        cell = plain[0].cell.model_copy(update={**known, "knobs": {"mode": mode}})
        runs = store.add_sweep(record, [run.model_copy(update={"cell": cell}) for run in plain])
        store.save_runs([report(grant(run).run, result(1.0, Validity.INVALID)) for run in runs])
    newest = store.newest_results(CATALOG)
    assert [r.knobs["mode"] for r in newest] == ["submission", "accuracy", "performance"]
    assert len(NewestResults(CATALOG, newest).snapshot()) == 1, "it is one work"


def test_a_newer_sweep_leaves_the_repeats_of_the_older_one_behind(store: Store) -> None:
    for generation, values in ((1, (1.0, 1.1, 1.2)), (2, (2.0, 2.1))):
        record = sweep_record(generation=generation)
        runs = store.add_sweep(record, runs_for(record))
        reports = [report(grant(r).run, result(v)) for r, v in zip(runs, values, strict=False)]
        store.save_runs(reports)
    newest = store.newest_results(CATALOG)
    assert [r.metrics["step_time"].value for r in newest] == [2.0, 2.1]
    (key,) = NewestResults(CATALOG, newest).snapshot().values()
    assert [repeat.ranked[0] for repeat in key.repeats] == [2.0, 2.1]
    assert key.ranked == median_of_runs([repeat.ranked for repeat in key.repeats])


def test_a_cell_that_is_measured_again_after_a_restart_keeps_its_repeats(store: Store) -> None:
    """Two cells of one kind, in turns: what is read again and followed is what was followed."""
    record = sweep_record(repeats=4)
    plain = runs_for(record)
    known = {"workload": "resnet", "stack": "torch"}  # in the catalogue: threads are no work
    sets = [{**known, "knobs": {"threads": n % 2}} for n in range(4)]
    cells = [plain[0].cell.model_copy(update=knobs) for knobs in sets]
    pairs = zip(plain, cells, strict=True)
    runs = store.add_sweep(record, [run.model_copy(update={"cell": cell}) for run, cell in pairs])
    *before, last = (report(grant(run).run, result(1.0 + n)) for n, run in enumerate(runs))
    store.save_runs(before)
    read_again = NewestResults(CATALOG, store.newest_results(CATALOG))
    store.save_runs([last])
    *_, newest = store.newest_results(CATALOG)
    read_again.add(newest)
    (key,) = read_again.snapshot().values()
    assert [repeat.values["step_time"] for repeat in key.repeats] == [2.0, 4.0]
    (whole,) = NewestResults(CATALOG, store.newest_results(CATALOG)).snapshot().values()
    assert whole == key


def test_the_fleet_round_trips_and_follows_changes(store: Store) -> None:
    assert store.fleet() == ([AGENT], [CPU, PHONE])
    restarted = AGENT.model_copy(
        update={"agent": AGENT.agent.model_copy(update={"incarnation": "second"}), "since": 9.0}
    )
    gone = CPU.model_copy(update={"online": False, "since": 9.0})
    store.save_agent(restarted, [gone])
    assert store.fleet() == ([restarted], [gone, PHONE])


def test_a_result_keeps_what_its_device_was_when_leased(store: Store, runs: list[Run]) -> None:
    leased = grant(runs[0], PHONE).run
    store.save_runs([RunChange(leased)])
    real = PHONE.device.model_copy(update={"kind": DeviceKind.CPU_HOST, "virtual": False})
    store.save_agent(AGENT, [PHONE.model_copy(update={"device": real})])
    store.save_runs([report(leased, result())])
    (stored,) = store.results()
    assert (stored.device_kind, stored.virtual) == (DeviceKind.ANDROID, True)


def test_everything_survives_reopening(implementation: Implementation, path: Path) -> None:
    record = sweep_record()
    done = report(grant(runs_for(record)[0]).run, result())

    def everything(reader: StoreReader) -> list[object]:
        return [reader.sweeps(), reader.runs(), reader.results(), reader.fleet()]

    with closing(implementation.open(path)) as store:
        store.save_agent(AGENT, [CPU, PHONE])
        store.add_sweep(record, runs_for(record))
        store.save_runs([done])
        before = everything(store)
    with closing(implementation.open_reader(path)) as reader:
        assert everything(reader) == before
    with closing(implementation.open(path)) as store:
        assert everything(store) == before
        assert store.add_sweep(record, runs_for(record)) == []


def test_how_a_sweep_stands_is_counted(store: Store, runs: list[Run]) -> None:
    other = sweep_record(name="other")
    store.add_sweep(other, runs_for(other))
    lost = lose(grant(runs[0]).run)
    late = report(lost.run, result())
    again = report(grant(late.run).run, result(), attempt=2)
    invalid = report(grant(runs[1]).run, result(validity=Validity.INVALID))
    disturbed = report(grant(runs[2]).run, result(validity=Validity.DISTURBED))
    for saved in ([lost], [late], [again, invalid, disturbed]):
        store.save_runs(saved)
    tally = store.tally(runs[0].sweep_id)
    counts = {state: n for state, n in tally.runs.items() if n}
    assert counts == {RunState.DONE: len(runs)}
    assert store.tally(other.sweep_id).runs[RunState.QUEUED] == len(runs)
    assert tally.met_rules == 2, "a late result and an INVALID one are none"
    assert set(store.tally("nobody").runs.values()) == {0}


def test_a_reader_sees_what_is_committed_while_a_write_is_under_way(
    implementation: Implementation, path: Path, store: Store, runs: list[Run]
) -> None:
    with closing(implementation.open_reader(path)) as reader:
        with implementation.half_written(path):
            assert reader.runs() == runs
            assert store.runs() == runs
        leased = grant(runs[0]).run
        store.save_runs([RunChange(leased)])
        assert reader.runs() == [leased, *runs[1:]]


_OUTCOMES = st.one_of(
    st.builds(result, st.floats(0.001, 1e6), st.sampled_from(Validity)),
    st.builds(failure, st.sampled_from(Blame)),
)
_GRANTED = st.builds(
    Granted,
    device_id=st.sampled_from([CPU.device.id, PHONE.device.id]),
    agent_id=st.just(AGENT.agent.id),
    incarnation=st.sampled_from(["first", "second"]),
)
_REPORTED = st.builds(Reported, attempt=st.just(1), outcome=_OUTCOMES, started_at=st.floats(0, 1e9))
_LOST = st.just(LeaseLost())
_CANCELLED = st.just(Cancelled())
# What makes outcomes comes more often than what ends a run without one.
_WEIGHTED: list[st.SearchStrategy[Event]] = [
    *([_GRANTED] * 8),
    *([_REPORTED] * 5),
    *([_LOST] * 5),
    _CANCELLED,
]
_EVENTS = st.sampled_from(_WEIGHTED).flatmap(lambda strategy: strategy)
_GENERATIONS = itertools.count(1)


# The store outlives the examples; each has a sweep of its own in it.
@settings(
    max_examples=60,
    deadline=None,
    derandomize=True,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
@given(
    events=st.lists(st.tuples(st.integers(0, 2), _EVENTS, st.booleans()), min_size=8, max_size=24)
)
def test_whatever_the_lifecycle_does_is_read_back_equal(
    store: Store, events: list[tuple[int, Event, bool]]
) -> None:
    record = sweep_record(generation=next(_GENERATIONS))
    runs = store.add_sweep(record, runs_for(record))
    records: list[OutcomeRecord] = []
    batch: list[RunChange] = []
    for now, (index, event, save) in enumerate(events, start=3000):
        if isinstance(event, Reported):
            if not runs[index].attempts:
                continue
            event = Reported(len(runs[index].attempts), event.outcome, event.started_at)
        change = advance(runs[index], event, now, RetryPolicy(max_failures=2, max_lost=2))
        runs[index] = change.run
        records += [change.record] if change.record else []
        batch.append(change)
        if save:
            store.save_runs(batch)
            batch = []
    store.save_runs(batch)
    assert store.runs(record.sweep_id) == runs
    kept = [*store.results(record.sweep_id), *store.failures(record.sweep_id)]
    assert {(k.run_id, k.attempt, k.counted, k.started_at) for k in kept} == {
        (r.run_id, r.attempt, r.counted, r.started_at) for r in records
    }
    assert len(kept) == len(records)


def test_the_life_of_a_device_and_its_history_are_kept(
    implementation: Implementation, path: Path, store: Store, runs: list[Run]
) -> None:
    hold = Hold(since=3.0, who="admin", why="it is 'loud'\u2026")
    booking = Booking(begins=4.0, ends=5.0, user=None, who="admin", why="battery")
    life = DeviceLife(failures=2, quarantine=hold, bookings=(booking,), labels={"rack": "b"})
    quarantined = CPU.model_copy(update={"life": life})
    event = DeviceHistoryEntry(
        device_id=CPU.device.id, at=3.0, state=DeviceState.QUARANTINED, who="admin", why="loud"
    )
    granted = grant(runs[0])
    store.save_runs([granted])
    store.save_devices([quarantined], [event])
    store.save_agent(AGENT, [CPU], [event.model_copy(update={"device_id": PHONE.device.id})])
    assert store.fleet()[1][0] == CPU
    store.save_devices([quarantined], [])
    with closing(implementation.open_reader(path)) as reader:
        assert reader.fleet()[1] == [quarantined, PHONE]
        told = reader.history(CPU.device.id)
        assert [e for e in told if e.state is not DeviceState.BUSY] == [event]
        (busy,) = (e for e in told if e.state is DeviceState.BUSY)
        assert busy.why == f"run {runs[0].run_id}, attempt 1: still runs"
        assert [e.at for e in told] == sorted(e.at for e in told)
        assert len(reader.history(PHONE.device.id)) == 1
        assert reader.history("nobody") == []


def test_tokens_are_kept_as_they_are_now(store: Store) -> None:
    ann = Token(name="ann", digest="0f", created_at=1.5)
    store.save_token(Token(name="ben", digest="1f", created_at=2.5))
    store.save_token(ann)
    ended = ann.model_copy(update={"revoked_at": 3.5})
    store.save_token(ended)
    assert store.tokens() == [ended, Token(name="ben", digest="1f", created_at=2.5)]


def test_a_revoked_agent_stays_so(store: Store) -> None:
    revoked = AGENT.model_copy(update={"revoked": Hold(since=2.0, who="admin", why="stolen")})
    store.save_agent(revoked, [])
    assert store.fleet()[0] == [revoked]
    store.save_agent(AGENT, [])
    assert store.fleet()[0] == [AGENT]


@pytest.mark.parametrize("revoked", [None, Hold(since=2.0, who="admin", why="stolen")])
def test_a_drained_agent_stays_so_with_its_devices(store: Store, revoked: Hold | None) -> None:
    drain = Hold(since=3.0, who="admin", why="new fans")
    held = AGENT.model_copy(update={"draining": drain, "revoked": revoked})
    store.save_agent(held, [])
    agents, devices = store.fleet()
    assert agents == [held]
    own = [known for known in devices if known.agent_id == AGENT.agent.id]
    assert own
    assert all((known.draining == drain) is (known in own) for known in devices)
    store.save_agent(AGENT.model_copy(update={"revoked": revoked}), [])
    assert store.fleet()[0] == [AGENT.model_copy(update={"revoked": revoked})]
    assert not any(known.draining for known in store.fleet()[1])


def test_an_attempt_counts_no_longer_than_its_run_may_take_where_the_clock_was_set(
    store: Store,
) -> None:
    record = sweep_record()
    runs = store.add_sweep(record, runs_for(record))
    for run, years in zip(runs, (40, -40), strict=False):
        leased = grant(run)
        store.save_runs([leased])
        ended_at = leased.run.attempts[0].leased_at + years * 365 * 86_400.0
        store.save_runs([report(leased.run, result(), now=ended_at)])
    seconds = sorted(spent.seconds for spent in store.spent(since=-math.inf))
    assert seconds == [0.0, runs[0].deadline_s + WAITING_S]
    assert sorted(took.seconds for took in store.took([runs[0].cell])) == seconds


def test_device_time_by_user_and_how_long_results_took(store: Store) -> None:
    for user in ("ann", "ben"):
        record = sweep_record(name=user).model_copy(update={"user": user})
        first, second, _ = store.add_sweep(record, runs_for(record))
        store.save_runs([grant(first), grant(second)])
        ended = [report(grant(first).run, result()), report(grant(second).run, failure())]
        store.save_runs(ended)
        assert [r.user for r in store.sweeps()][-1] == user
    attempts = [a for run in store.runs() for a in run.attempts]
    spent = store.spent(since=0.0)
    assert sorted(s.user for s in spent) == ["ann", "ann", "ben", "ben"]
    assert {(s.ended_at, s.seconds) for s in spent} == {
        (a.ended_at, a.ended_at - a.leased_at) for a in attempts if a.ended_at
    }
    assert store.spent(since=max(s.ended_at for s in spent)) == []
    cell = runs_for(sweep_record())[0].cell
    took = store.took([cell])
    assert [(t.workload, t.device, t.device_kind) for t in took] == [
        ("retinanet", attempts[0].device_id, DeviceKind.CPU_HOST)
    ] * 2
    assert store.took([cell.model_copy(update={"stack": "compile"})]) == []
    assert store.took([]) == []


def test_how_long_results_took_is_told_by_the_newest(store: Store) -> None:
    record = sweep_record(repeats=TRIES_OF_CELL + 10)
    runs = store.add_sweep(record, runs_for(record))
    for number, run in enumerate(runs):
        store.save_runs([report(grant(run, now=1000.0).run, result(), now=1001.0 + number)])
    took = store.took([runs[0].cell])
    assert [t.seconds for t in took] == [1.0 + n for n in range(10, len(runs))]
