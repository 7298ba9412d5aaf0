"""Exports by two processes: the results are those of one, whatever becomes of the second."""

from __future__ import annotations

import errno
import os
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from itertools import chain
from pathlib import Path

import psutil
import pytest

from controller.contracts.flat_result import FlatResult
from controller.contracts.outcome_filter import OutcomeFilter
from controller.contracts.shown_names import ShownNames
from controller.reports.arrow import table_of
from controller.store.flat_reading import OWN_SHARE
from controller.store.plain_results import FoundByNumber
from controller.store.second_reader import SecondReader, second_reader
from controller.store.sqlite import SqliteStore
from tests.support.processes import is_dead
from tests.support.sample_store import fill
from tests.support.waiting import eventually

ALL = OutcomeFilter()
AT_ONCE = 3


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("second") / "store.sqlite"
    with closing(SqliteStore.open(path)) as store:
        fill(store, sweeps=1, repeats=60)
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    return path


@pytest.fixture
def answered(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """How many results each answer of a second reader has, which there is on two cores."""
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: {0, 1})
    noted: list[int] = []
    answer = SecondReader.answer

    def noting(self: SecondReader) -> FoundByNumber:
        found = answer(self)
        noted.append(len(found))
        return found

    monkeypatch.setattr(SecondReader, "answer", noting)
    return noted


def readers() -> list[psutil.Process]:
    """Return the second readers of this process."""
    return [
        child
        for child in psutil.Process().children()
        if not is_dead(child) and any("second_reader_main" in word for word in child.cmdline())
    ]


def by_one(path: Path, wanted: OutcomeFilter = ALL) -> list[FlatResult]:
    with (
        closing(SqliteStore.open_reader(path, lambda _: None)) as reader,
        pytest.MonkeyPatch.context() as patch,
    ):
        patch.setattr(os, "sched_getaffinity", lambda _: {0})
        found = [*chain(*reader.flat_batches(wanted, AT_ONCE))]
    assert found
    return found


def test_a_part_of_each_batch_is_the_seconds(path: Path, answered: list[int]) -> None:
    expected = by_one(path)
    assert answered == [], "of one core, one process makes use"
    with closing(SqliteStore.open_reader(path, pytest.fail)) as reader:
        batches = [*reader.flat_batches(ALL, AT_ONCE)]
    assert [*chain(*batches)] == expected
    assert len(batches) > 10
    assert answered == [len(batch) - round(OWN_SHARE * len(batch)) for batch in batches[2:]]
    assert not readers()


@pytest.mark.parametrize(
    "damage",
    [
        "UPDATE outcomes SET document = CAST(x'ff' AS TEXT) WHERE number IN (3, 4, 5)",
        "DELETE FROM cells",
        "UPDATE outcomes SET validity = 'VALID' WHERE validity = 'INVALID'",
    ],
)
def test_what_the_second_cannot_read_is_told_by_the_first(
    path: Path, tmp_path: Path, answered: list[int], damage: str
) -> None:
    copy = tmp_path / "store.sqlite"
    copy.write_bytes(path.read_bytes())
    with closing(sqlite3.connect(copy)) as connection, connection:
        assert connection.execute(damage).rowcount
    told: list[list[str]] = [[], []]
    found = []
    for lines, cores in zip(told, ({0}, {0, 1}), strict=True):
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(os, "sched_getaffinity", lambda _, cores=cores: cores)
            with closing(SqliteStore.open_reader(copy, lines.append)) as reader:
                found.append([*chain(*reader.flat_batches(ALL, AT_ONCE))])
    assert found[0] == found[1]
    assert sorted(told[0]) == sorted(told[1]) != []
    assert answered


@pytest.mark.parametrize("batches", [1, 2, 3, 4])
def test_nothing_is_lost_with_a_second_that_is_killed(
    path: Path, answered: list[int], batches: int, caplog: pytest.LogCaptureFixture
) -> None:
    with closing(SqliteStore.open_reader(path, pytest.fail)) as reader:
        export = reader.flat_batches(ALL, AT_ONCE)
        found = [next(export), *(next(export) for _ in range(batches))]
        (second,) = readers()
        second.kill()
        eventually(lambda: is_dead(second), "it has ended")
        expected = table_of(by_one(path))
        assert table_of([*chain(*found, *export)]).equals(expected)
    (line,) = [record.getMessage() for record in caplog.records]
    assert line.startswith("the second reader of an export has ended (")


def test_one_goes_on_alone_if_there_can_be_no_second(
    path: Path,
    answered: list[int],
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise BlockingIOError(errno.EAGAIN, os.strerror(errno.EAGAIN))

    monkeypatch.setattr("controller.store.second_reader.subprocess.Popen", refuse)
    with closing(SqliteStore.open_reader(path, pytest.fail)) as reader:
        for _ in range(2):
            assert [*chain(*reader.flat_batches(ALL, AT_ONCE))] == by_one(path)
    said = {record.getMessage() for record in caplog.records}
    assert said == {
        "no second reader of an export can be started: Resource temporarily unavailable"
    }
    assert answered == []


def test_one_export_at_a_time_has_a_second(path: Path, answered: list[int]) -> None:
    with closing(SqliteStore.open_reader(path, pytest.fail)) as reader:
        exports: list[Iterator[object]] = [reader.flat_batches(ALL, AT_ONCE) for _ in range(3)]
        for export in exports[:2]:
            next(export)
            next(export)
        (second,) = readers()
        del export, exports[0]  # nobody takes the rest
        eventually(lambda: is_dead(second), "it has ended")
        next(exports[1])
        next(exports[1])
        assert len(readers()) == 1
        exports.clear()


def test_it_ends_with_the_process_that_asks(path: Path) -> None:
    with second_reader(path) as second:
        (process,) = readers()
        assert second.ask([], ShownNames({}, {}))
        assert second.answer() == {}
        second._line.close()
        eventually(lambda: is_dead(process), "it has ended")
