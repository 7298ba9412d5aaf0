"""Whatever happens to a store's bytes: no traceback, nothing else shown, what is whole shown."""

from __future__ import annotations

import random
import sqlite3
from bisect import bisect_left
from collections import Counter
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

import pytest

from controller.contracts.records import StoredResult
from controller.store.sqlite import SqliteStore
from tests.support import sqlite_damage
from tests.support.sample_store import Seen, fill, identity, make, see
from tests.support.sqlite_damage import RowBytes

FEW = range(60)
"""Seeds of the damages that every run of the tests does."""
MANY = [range(max(first, len(FEW)), first + 250) for first in range(0, 1000, 250)]
"""Those of the long tests: with FEW, 1,000."""

Rows = set[tuple[str, int]]
"""Tables, and row ids in them."""


@dataclass(frozen=True, slots=True)
class Whole:
    """A store without fault: its bytes, what is read of it, and the rows each result is made of."""

    data: bytes
    seen: Seen
    rows: list[RowBytes]
    owned: list[Rows]


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Whole:
    path = tmp_path_factory.mktemp("whole") / "store.sqlite"
    make(path)
    seen = see(path)
    assert seen.lines == []
    assert all(seen.records.values()), "each has something to lose"
    with closing(sqlite3.connect(path)) as connection:
        owned = [_rows_of(connection, record) for record in seen.records["results"]]
    return Whole(path.read_bytes(), seen, sqlite_damage.rows_of(path), owned)


def _rows_of(connection: sqlite3.Connection, record: object) -> Rows:
    assert isinstance(record, StoredResult)
    key = (record.run_id, record.attempt, record.counted)
    queries = {
        "outcomes": ("run_id = ? AND attempt = ? AND counted = ?", key),
        "measurements": ("run_id = ? AND attempt = ? AND counted = ?", key),
        "attempts": ("run_id = ? AND number = ?", key[:2]),
        "runs": ("run_id = ?", key[:1]),
        "cells": ("cell_key = ?", (record.cell_key,)),
    }
    return {
        (table, row_id)
        for table, (where, values) in queries.items()
        for (row_id,) in connection.execute(f"SELECT rowid FROM {table} WHERE {where}", values)
    }


def _is_struck(row: RowBytes, where: list[int]) -> bool:
    spans = ((bisect_left(where, begin), end) for begin, end in row.needs)
    return any(at < len(where) and where[at] < end for at, end in spans)


def _nothing_is_other_or_lost_in_silence(context: str, whole: Whole, seen: Seen) -> None:
    missing = 0
    for name, records in whole.seen.records.items():
        known = Counter(identity(record) for record in records)
        now = Counter(identity(record) for record in seen.records.get(name, []))
        assert not now - known, f"{context}: {name} has what was never stored"
        missing += sum((known - now).values())
    assert not missing or seen.lines, f"{context}: {missing} records are lost without a word"
    assert all("\n" not in line and line.isprintable() for line in seen.lines), context


def _whole_results_are_shown(context: str, whole: Whole, seen: Seen, where: list[int]) -> None:
    struck = {(row.table, row.row_id) for row in whole.rows if _is_struck(row, where)}
    shown = {identity(record) for record in seen.records["results"]}
    for record, owned in zip(whole.seen.records["results"], whole.owned, strict=True):
        if not owned & struck:
            assert identity(record) in shown, f"{context}: {record!r} is whole and not shown"


def _is_of_the_file(where: list[int], whole: Whole) -> bool:
    """Tell whether what all rows need is struck: the file's header or its schema."""
    common = set.intersection(*({*row.needs} for row in whole.rows if row.table != "sqlite_master"))
    return _is_struck(RowBytes("", 0, [*common]), where)


@pytest.mark.parametrize("seeds", [FEW, *(pytest.param(s, marks=pytest.mark.long) for s in MANY)])
def test_random_damage(tmp_path: Path, whole: Whole, seeds: range) -> None:
    path = tmp_path / "store.sqlite"
    outcomes: Counter[str] = Counter()
    for seed in seeds:
        strike = sqlite_damage.BY_BYTES[seed % len(sqlite_damage.BY_BYTES)]
        data = bytearray(whole.data)
        strike(random.Random(seed), data)
        path.write_bytes(data)
        context = f"damage {seed} by {strike.__name__}"
        seen = see(path)
        where = sqlite_damage.changed(whole.data, bytes(data))
        _nothing_is_other_or_lost_in_silence(context, whole, seen)
        if "results" in seen.errors:
            outcomes["refused"] += 1
            said = seen.errors["results"]
            assert _is_of_the_file(where, whole) or "malformed" in str(said), f"{context}: {said}"
        else:
            _whole_results_are_shown(context, whole, seen, where)
            outcomes["read" if seen.lines else "nothing lost"] += 1
    assert {*outcomes} == {"refused", "read", "nothing lost"}, "the damages are of different kinds"


FILES = ("store.sqlite-wal", "store.sqlite-shm", "store.sqlite")
"""Of a store whose writer was killed."""


@pytest.fixture(scope="module")
def unfinished(tmp_path_factory: pytest.TempPathFactory) -> dict[str, bytes]:
    folder = tmp_path_factory.mktemp("unfinished")
    with closing(SqliteStore.open(folder / "store.sqlite")) as store:
        fill(store, sweeps=1)
        return {name: (folder / name).read_bytes() for name in FILES}


def _put(folder: Path, files: dict[str, bytes]) -> Path:
    for old in folder.iterdir():
        old.unlink()
    for name, data in files.items():
        (folder / name).write_bytes(data)
    return folder / "store.sqlite"


def test_random_damage_of_the_log(tmp_path: Path, unfinished: dict[str, bytes]) -> None:
    sound = see(_put(tmp_path, unfinished))
    assert sound.lines == []
    assert all(sound.records.values())
    lost = 0
    for seed in FEW[:20]:
        name = FILES[seed % 2]
        strike = sqlite_damage.BY_BYTES[seed // 2 % len(sqlite_damage.BY_BYTES)]
        data = bytearray(unfinished[name])
        strike(random.Random(seed), data)
        path = _put(tmp_path, {**unfinished, name: bytes(data)})
        seen = see(path)
        if seen.records != sound.records:
            lost += 1
            said = (
                f"damage {seed} of {name} by {strike.__name__}: what is older is shown in silence"
            )
            assert seen.lines, said
    assert lost, "the damages are of different kinds"


@pytest.mark.parametrize(
    ("name", "data"),
    [
        ("store.sqlite-wal", b""),
        ("store.sqlite-wal", b"\xff" * 5000),
        ("store.sqlite", b"\0" * 9000),
    ],
)
def test_a_file_of_another_length_is_named(
    tmp_path: Path, unfinished: dict[str, bytes], name: str, data: bytes
) -> None:
    sound = see(_put(tmp_path, unfinished))
    seen = see(_put(tmp_path, {**unfinished, name: data}))
    assert seen.records == sound.records or seen.lines


def test_a_log_and_a_file_of_two_stores_are_told_apart(
    tmp_path: Path, unfinished: dict[str, bytes], whole: Whole
) -> None:
    sound = see(_put(tmp_path, unfinished))
    seen = see(_put(tmp_path, {**unfinished, "store.sqlite": whole.data}))
    assert seen.records == sound.records or seen.lines, "what the log has is not mixed with others"


def test_a_log_that_a_killed_writer_left_is_sound(
    tmp_path: Path, unfinished: dict[str, bytes], caplog: pytest.LogCaptureFixture
) -> None:
    whole = unfinished["store.sqlite-wal"]
    torn = {**unfinished, "store.sqlite-wal": whole + whole[32 : 32 + 4000]}
    with closing(SqliteStore.open(_put(tmp_path, torn))) as store:
        assert len(store.results()) == 9
        assert store.damage() == []
    assert caplog.text == ""
