"""Runs that were never leased share a record; each gets a row with its first lease."""

from __future__ import annotations

import json
import random
import sqlite3
import tracemalloc
import zlib
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from controller.contracts.errors import StoreConflict
from controller.contracts.grid import Grid
from controller.contracts.run import Run, RunChange, RunState
from controller.contracts.sweep import Cell
from controller.scheduling.lifecycle import Cancelled, Event, Resumed
from controller.store import tables
from controller.store.packing import MAX_TEXT, pack, state_of, unpack, with_states
from controller.store.sealing import seal_of_row
from controller.store.sqlite import SqliteStore
from tests.support.store_examples import (
    AGENT,
    CPU,
    PHONE,
    change,
    grant,
    report,
    result,
    runs_for,
    sweep_record,
)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "store.sqlite"


@pytest.fixture
def store(path: Path) -> Iterator[SqliteStore]:
    with closing(SqliteStore.open(path)) as store:
        store.save_agent(AGENT, [CPU, PHONE])
        yield store


def _rows(path: Path, table: str) -> int:
    with closing(sqlite3.connect(path)) as connection:
        (count,) = connection.execute(f"SELECT count(*) FROM {table}").fetchone()
    assert isinstance(count, int)
    return count


def _cells() -> list[Cell]:
    """Return cells alike in some ways, and with knobs that Python takes for equal."""
    (run, *_) = runs_for(sweep_record())
    knobs = [{"a": 1}, {"a": 1.0}, {"a": True}, {"a": "1"}, {}, {"b": "ü\n", "a": 2}]
    cells = [run.cell.model_copy(update={"knobs": one}) for one in knobs]
    versus = {"stack": "torch", "knobs": {"a": 1.0}, "width": 0.5}
    paired = Cell.model_validate({**run.cell.model_dump(), "versus": versus, "profiled": True})
    return [*cells, paired]


def test_what_is_packed_is_unpacked_to_the_same() -> None:
    runs = [*Grid("s-1", _cells(), 3, 60.0, 1000.5).runs()]
    record, others = pack(runs)
    assert record is not None
    assert not others
    chance = random.Random(3)
    either: list[Event] = [Cancelled(), Resumed()]
    for number in range(len(runs)):
        for event in chance.sample(either, chance.randrange(3)):
            runs[number] = change(runs[number], event, 7.25).run
    record = with_states(record, map(state_of, runs))
    assert [run.model_dump_json() for run in unpack(record)] == [r.model_dump_json() for r in runs]
    assert {run.state for run in runs} == {RunState.QUEUED, RunState.CANCELLED}


def test_a_first_lease_makes_a_row_and_the_last_one_ends_the_record(
    store: SqliteStore, path: Path
) -> None:
    record = sweep_record(repeats=4)
    runs = store.add_sweep(record, runs_for(record))
    assert (_rows(path, "runs"), _rows(path, "cells"), _rows(path, "unleased")) == (0, 0, 1)
    now = list(runs)
    for position in (2, 0, 1, 3):
        leased = grant(now[position])
        store.save_runs([leased])
        now[position] = leased.run
        assert store.runs() == now
        assert store.run(leased.run.run_id) == leased.run
    assert (_rows(path, "runs"), _rows(path, "cells"), _rows(path, "unleased")) == (4, 1, 0)
    store.save_runs([report(now[0], result())])
    assert store.add_sweep(record, runs_for(record)) == []
    assert store.damage() == []


def test_all_that_wait_are_cancelled_resumed_and_found_again(
    store: SqliteStore, path: Path
) -> None:
    record = sweep_record(repeats=1000)
    runs = store.add_sweep(record, runs_for(record))
    leased = grant(runs[0])
    store.save_runs([leased])
    waiting = runs[1:]
    events: list[Event] = [Cancelled(), Resumed(), Cancelled(), Resumed()]
    for now, event in enumerate(events):
        changes = [change(run, event, 3000.0 + now) for run in waiting]
        store.save_runs(changes)
        waiting = [one.run for one in changes]
        assert store.runs() == [leased.run, *waiting]
        open_runs = [leased.run, *(run for run in waiting if not run.state.terminal)]
        assert store.runs(open_only=True) == open_runs
        tally = store.tally(record.sweep_id).runs
        assert tally[RunState.LEASED] == 1
        assert tally[waiting[0].state] == 999
    assert store.run(waiting[7].run_id) == waiting[7]
    assert _rows(path, "runs") == 1
    store.close()
    with closing(SqliteStore.open(path)) as again:
        assert again.runs(open_only=True) == [leased.run, *waiting]


def test_a_run_whose_record_is_damaged_gets_a_row_when_it_changes(
    store: SqliteStore, path: Path
) -> None:
    record = sweep_record()
    first, second, _ = store.add_sweep(record, runs_for(record))
    with closing(sqlite3.connect(path)) as connection, connection:
        connection.execute("UPDATE unleased SET deadline_s = 1")
    changes = [grant(first), change(second, Cancelled(), 5.0)]
    store.save_runs(changes)
    assert store.runs() == [one.run for one in changes]
    assert store.add_sweep(record, runs_for(record)) == [], "which it had, nothing tells"
    assert any("never leased" in line for line in store.damage())
    assert any(line.startswith("1 of the 3 runs") for line in store.damage())


def test_a_row_that_is_lost_does_not_come_back_as_waiting(store: SqliteStore, path: Path) -> None:
    record = sweep_record()
    runs = store.add_sweep(record, runs_for(record))
    store.save_runs([grant(runs[0])])
    with closing(sqlite3.connect(path)) as connection, connection:
        connection.execute("DELETE FROM runs")
    assert store.runs() == runs[1:]
    assert store.damage() == [f"1 of the 3 runs of sweep {record.sweep_id}: missing"]


def test_a_run_that_another_sweep_has_leased_is_not_queued_under_the_same_id(
    store: SqliteStore,
) -> None:
    other = sweep_record("other")
    cancelled = store.add_sweep(other, runs_for(other))[0]
    record = sweep_record()
    (run, *_) = store.add_sweep(record, runs_for(record))
    taken = run.model_copy(update={"run_id": cancelled.run_id})
    with pytest.raises(StoreConflict):
        store.add_sweep(sweep_record("third"), [taken.model_copy(update={"sweep_id": "third"})])
    store.save_runs([RunChange(grant(run).run)])
    clash = run.model_copy(update={"sweep_id": other.sweep_id})
    with pytest.raises(StoreConflict, match="another sweep has a run"):
        store.save_runs([RunChange(clash)])


def test_a_record_takes_no_more_memory_than_any_that_was_written() -> None:
    record, _ = pack([*Grid("s-1", _cells(), 3, 60.0, 1000.5).runs()])
    assert record
    bomb = {**record, "cells": zlib.compress(b" " * (8 * MAX_TEXT), 9)}
    tracemalloc.start()
    with pytest.raises(ValueError, match="too long"):
        unpack(bomb)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 4 * MAX_TEXT


@pytest.mark.parametrize(
    ("column", "value"),
    [
        ("cells", b"\x00"),
        ("cells", "text"),
        ("cells", zlib.compress(b"{}")),
        ("cells", zlib.compress(b'{"table":[[9]],"words":[]}')),
        ("spans", [[2**40, "queued", None, None]]),
        ("spans", [[-1, "queued", None, None]]),
        ("spans", [["a"]]),
        ("spans", {}),
        ("spans", [[21, "other", None, None]]),
        ("repeats", 2),
    ],
)
def test_a_record_that_this_release_does_not_understand_is_named(
    store: SqliteStore, path: Path, column: str, value: object
) -> None:
    record = sweep_record()
    store.add_sweep(record, runs_for(record))
    packed, _ = pack(runs_for(record))
    assert packed
    other = {**packed, column: value}
    checksum = seal_of_row(tables.unleased, other)
    stored = json.dumps(value) if column == "spans" else value
    with closing(sqlite3.connect(path)) as connection, connection:
        change_ = f"UPDATE unleased SET {column} = ?, checksum = ?"
        connection.execute(change_, (stored, checksum))
    assert store.runs() == []
    assert any("never leased runs of sweep demo-" in line for line in store.damage())
    assert isinstance(store.tally(record.sweep_id).lost, int)
    _check_run(runs_for(record)[0], store)


def _check_run(run: Run, store: SqliteStore) -> None:
    leased = grant(run)
    store.save_runs([leased])
    assert store.runs() == [leased.run]
