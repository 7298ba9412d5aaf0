"""What pages read by keys is what the readers of whole tables read."""

from __future__ import annotations

import shutil
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from controller.contracts.outcome_filter import OutcomeFilter
from controller.contracts.run import RunState
from controller.store.reading import SqliteReader
from controller.store.sqlite import SqliteStore
from tests.support.sample_store import identity, make
from tests.support.store_examples import grant, lose, runs_for, sweep_record


@pytest.fixture(scope="module")
def original(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a store in which one more run is leased, and one is queued again."""
    made = tmp_path_factory.mktemp("live") / "store.sqlite"
    make(made)
    record = sweep_record("more", repeats=5)
    with closing(SqliteStore.open(made)) as store:
        runs = store.add_sweep(record, runs_for(record))
        store.save_runs([grant(runs[0], now=9000.0)])
        leased = grant(runs[1], now=9001.0)
        store.save_runs([leased])
        store.save_runs([lose(leased.run, 9030.0)])
    return made


@pytest.fixture
def path(original: Path, tmp_path: Path) -> Path:
    """Return a copy of the store, to be damaged."""
    return Path(shutil.copy(original, tmp_path / "store.sqlite"))


@pytest.fixture(scope="module")
def reader(original: Path) -> Iterator[SqliteReader]:
    with closing(SqliteStore.open_reader(original)) as found:
        yield found


def test_begun_runs_are_the_open_ones_with_attempts(reader: SqliteReader) -> None:
    every = [run for run in reader.runs(open_only=True) if run.attempts]
    assert [run.state for run in every] == [RunState.LEASED, RunState.QUEUED]
    assert reader.begun_runs() == every


def test_never_leased_runs_are_counted_for_each_sweep(reader: SqliteReader) -> None:
    counts: dict[str, int] = {}
    for run in reader.runs(open_only=True):
        if not run.attempts:
            counts[run.sweep_id] = counts.get(run.sweep_id, 0) + 1
    assert len(counts) == 5
    assert reader.never_leased() == counts


def test_outcomes_of_a_run_are_its_results_and_failures(reader: SqliteReader) -> None:
    every = [*reader.results(), *reader.failures()]
    for run in reader.runs():
        own = [one for one in every if one.run_id == run.run_id]
        found = reader.outcomes_of(run.run_id)
        assert {identity(one) for one in found} == {identity(one) for one in own}
        assert [one.attempt for one in found] == sorted(one.attempt for one in own)
    assert reader.outcomes_of("none") == []


@pytest.mark.parametrize("newest", [1, 3, 100])
def test_newest_failures_come_first(reader: SqliteReader, newest: int) -> None:
    every = reader.failures()[::-1]
    assert len(every) > 3
    assert reader.newest_failures(OutcomeFilter(), newest) == every[:newest]
    sweep_id = every[0].sweep_id
    own = [one for one in every if one.sweep_id == sweep_id]
    assert reader.newest_failures(OutcomeFilter(sweep_id=sweep_id), newest) == own[:newest]


@pytest.mark.parametrize("device", ["host-1", "phone-1", "none"])
def test_a_history_is_read_page_by_page_from_its_end(reader: SqliteReader, device: str) -> None:
    every = reader.history(device)
    found, before = [], None
    while page := reader.recent_history(device, 3, before):
        found += page
        before = page[-1].at
    moments = [entry.at for entry in found]
    assert moments == sorted(moments, reverse=True)
    assert {entry.at for entry in every} == set(moments)
    assert [one.at for one in reader.recent_history(device, 1000)] == [
        one.at for one in every[::-1]
    ]


@pytest.mark.parametrize(
    ("change", "what"),
    [
        ("UPDATE runs SET deadline_s = 7 WHERE state = 'leased'", "run "),
        ("UPDATE attempts SET late = 1 WHERE leased_at = 9000.0", "run "),
    ],
)
def test_a_damaged_run_is_left_out_and_named(path: Path, change: str, what: str) -> None:
    with closing(sqlite3.connect(path)) as connection, connection:
        connection.execute(change)
    lines: list[str] = []
    with closing(SqliteStore.open_reader(path, lines.append)) as reader:
        assert [run.state for run in reader.begun_runs()] == [RunState.QUEUED]
    (line,) = lines
    assert f"cannot read {what}" in line


def test_a_damaged_outcome_is_left_out_and_named(path: Path) -> None:
    with closing(SqliteStore.open_reader(path)) as reader:
        run_id = reader.failures()[-1].run_id
    with closing(sqlite3.connect(path)) as connection, connection:
        connection.execute("UPDATE outcomes SET message = 'x' WHERE run_id = ?", [run_id])
    lines: list[str] = []
    with closing(SqliteStore.open_reader(path, lines.append)) as reader:
        assert reader.outcomes_of(run_id) == []
        assert run_id not in {one.run_id for one in reader.newest_failures(OutcomeFilter(), 100)}
    assert any(run_id in line for line in lines)
