"""Reading the outcomes that a filter keeps: never others, and all that the filter keeps."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Iterator, Mapping
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from controller.contracts.base import Scalar
from controller.contracts.outcome_filter import CellFilter, OutcomeFilter
from controller.contracts.result import Validity
from controller.contracts.run import Run, RunChange
from controller.contracts.sweep import PairedCandidate
from controller.scheduling.binding import runs_of
from controller.store.reading import SqliteReader
from controller.store.sqlite import SqliteStore
from tests.support.sample_store import fill, identity
from tests.support.store_examples import (
    AGENT,
    CPU,
    grant,
    lose,
    report,
    result,
    runs_for,
    sweep_record,
)

PAIRED = PairedCandidate(stack="ipex", knobs={"dtype": "fp32", "fused": True}, width=0.02)
SWEEP = sweep_record(generation=2, repeats=12).sweep_id
RESULTS = 4 * 9 + 1
"""Nine of each of four sweeps, and one paired comparison."""


def omitted(workload: str, stack: str, scenario: str) -> Mapping[str, Scalar]:
    """Return what cells of one stack may lack, and what another's have."""
    assert (workload, scenario) == ("retinanet", "training")
    return {"eager": {"later": 1, "batch": 64}, "ipex": {"later": 2}}[stack]


KEPT = [
    (OutcomeFilter(), RESULTS),
    (OutcomeFilter(sweep_id=SWEEP), 9),
    (OutcomeFilter(tags=frozenset({"g2"})), 9),
    (OutcomeFilter(tags=frozenset({"g2", "paper"}), device="phone-1"), 3),
    (OutcomeFilter(tags=frozenset({"paper"})), RESULTS - 1),
    (OutcomeFilter(tags=frozenset({"g2", "g3"})), 0),
    (OutcomeFilter(tags=frozenset({"pap"})), 0),
    (OutcomeFilter(device="phone-1"), 12),
    (OutcomeFilter(device="phone"), 0),
    (OutcomeFilter(validity=Validity.INVALID), 4),
    (OutcomeFilter(since=2300.0, until=2500.0), 4),
    (OutcomeFilter(CellFilter(workload="retinanet", scenario="training")), RESULTS),
    (OutcomeFilter(CellFilter(workload="retina")), 0),
    (OutcomeFilter(CellFilter(stack="ipex")), 1),
    (OutcomeFilter(CellFilter(stack="eager")), RESULTS),
    (OutcomeFilter(CellFilter(knobs={"batch": 2, "dtype": "bf16"})), RESULTS),
    (OutcomeFilter(CellFilter(knobs={"batch": 2.0})), RESULTS),
    (OutcomeFilter(CellFilter(knobs={"dtype": "fp32"})), 1),
    (OutcomeFilter(CellFilter(knobs={"channels_last": True})), RESULTS),
    (OutcomeFilter(CellFilter(knobs={"channels_last": 1})), 0),
    (OutcomeFilter(CellFilter(knobs={"batch": True})), 0),
    (OutcomeFilter(CellFilter(stack="eager", knobs={"fused": True})), 0),
    (OutcomeFilter(CellFilter(knobs={"no such": 1})), 0),
    (OutcomeFilter(CellFilter(knobs={"later": 1}, omitted=omitted)), RESULTS),
    (OutcomeFilter(CellFilter(knobs={"later": 2}, omitted=omitted)), 1),
    (OutcomeFilter(CellFilter(knobs={"later": True}, omitted=omitted)), 0),
    (OutcomeFilter(CellFilter(knobs={"later": 1, "dtype": "fp32"}, omitted=omitted)), 0),
    (OutcomeFilter(CellFilter(knobs={"batch": 64}, omitted=omitted)), 0),
    (OutcomeFilter(CellFilter(stack="ipex", knobs={"later": 1}, omitted=omitted)), 0),
]


def save(store: SqliteStore, change: RunChange) -> Run:
    store.save_runs([change])
    return change.run


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("selected") / "store.sqlite"
    with closing(SqliteStore.open(path)) as store:
        fill(store)
        record = sweep_record("paired", repeats=1)
        cell = runs_for(record)[0].cell.model_copy(update={"versus": PAIRED})
        (run,) = store.add_sweep(record, runs_of(record.sweep, record.sweep_id, [cell], 1000.5))
        store.save_runs([report(grant(run).run, result())])
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    return path


@pytest.fixture
def store(path: Path) -> Iterator[SqliteReader]:
    with closing(SqliteStore.open_reader(path)) as reader:
        yield reader


@pytest.mark.parametrize(("wanted", "expected"), KEPT)
def test_a_filter_in_the_store_keeps_what_it_says(
    store: SqliteReader, wanted: OutcomeFilter, expected: int
) -> None:
    found, count = store.selected_results(wanted)
    assert found == [one for one in store.results() if wanted.keeps(one)]
    assert len(found) == count == expected
    failed, count = store.selected_failures(wanted)
    assert failed == [one for one in store.failures() if wanted.keeps(one)]
    assert len(failed) == count
    assert store.damage() == []


def test_the_newest_are_given_with_the_number_of_all(store: SqliteReader) -> None:
    wanted = OutcomeFilter(device="host-1")
    every, count = store.selected_results(wanted)
    assert store.selected_results(wanted, newest=3) == (every[-3:], count)
    assert store.selected_results(wanted, newest=count + 1) == (every, count)
    failed, count = store.selected_failures(OutcomeFilter())
    assert store.selected_failures(OutcomeFilter(), newest=2) == (failed[-2:], count)


def test_the_newest_of_a_damaged_store_are_no_late_ones_of_before(tmp_path: Path) -> None:
    path, record = tmp_path / "store.sqlite", sweep_record(repeats=3)
    with closing(SqliteStore.open(path)) as store:
        store.save_agent(AGENT, [CPU])
        first, *others = store.add_sweep(record, runs_for(record))
        lost = lose(save(store, grant(first)))
        save(store, report(save(store, lost), result()))  # late
        for run in others:
            save(store, report(save(store, grant(run)), result()))
        counted = [one for one in store.results() if one.counted]
    assert len(counted) > 1
    with closing(sqlite3.connect(path)) as connection, connection:
        newest = "(SELECT max(number) FROM outcomes)"
        connection.execute(f"UPDATE outcomes SET checksum = '0' WHERE number = {newest}")
    with closing(SqliteStore.open_reader(path, lambda _: None)) as reader:
        (found,), _ = reader.selected_results(OutcomeFilter(), newest=1)
    assert identity(found) == identity(counted[-2])


class CountingReader(SqliteReader):
    """A reader that counts the records that it makes of rows."""

    made = 0

    def _made(self, rows: Iterable[Any], *how: Any) -> list[Any]:  # noqa: ANN401
        found = super()._made(rows, *how)
        self.made += len(found)
        return found


def test_a_lost_outcome_is_told_of_once_and_costs_later_reads_nothing(tmp_path: Path) -> None:
    path, record, lines = tmp_path / "store.sqlite", sweep_record("more", repeats=4), list[str]()
    with closing(SqliteStore.open(path)) as store:
        fill(store)
        with closing(sqlite3.connect(path)) as connection, connection:
            connection.execute("DELETE FROM outcomes WHERE number = 3")
        with closing(CountingReader(path, lines.append)) as reader:
            reader.selected_results(OutcomeFilter(), newest=1)
            told = [*lines]
            for run in store.add_sweep(record, runs_for(record)):
                save(store, report(save(store, grant(run)), result()))
                reader.made = 0
                (found,), _ = reader.selected_results(OutcomeFilter(), newest=1)
                assert (found.run_id, reader.made) == (run.run_id, 1)
            assert lines == told
            assert len([line for line in reader.damage() if "results and failures" in line]) == 1


CHANGES = (
    "UPDATE outcomes SET validity = 'VALID' WHERE validity = 'INVALID'",
    "UPDATE cells SET knobs = '{\"batch\": 99}'",
    "UPDATE cells SET knobs = 'no JSON'",
    "UPDATE measurements SET value = value + 1",
    "DELETE FROM outcomes WHERE number = 2",
    "UPDATE attempts SET checksum = NULL",
    "UPDATE sweep_annotations SET tags = '[]'",
    "UPDATE sweep_annotations SET tags = 'no JSON'",
)


@pytest.mark.parametrize("change", CHANGES)
def test_what_was_changed_in_the_file_is_never_given(
    path: Path, tmp_path: Path, change: str
) -> None:
    changed = tmp_path / "store.sqlite"
    changed.write_bytes(path.read_bytes())
    with closing(sqlite3.connect(changed)) as connection, connection:
        connection.execute(change)
    lines: list[str] = []
    with closing(SqliteStore.open_reader(path)) as sound:
        true = {identity(one) for one in sound.results()}
    with closing(SqliteStore.open_reader(changed, lines.append)) as reader:
        for wanted, _ in KEPT:
            found, count = reader.selected_results(wanted, newest=200)
            assert all(identity(one) in true and wanted.keeps(one) for one in found)
            assert len(found) == count
    assert lines, "nothing is lost in silence"
