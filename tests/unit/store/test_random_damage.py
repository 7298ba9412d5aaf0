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
from tests.support import damage
from tests.support.damage import RowBytes
from tests.support.damaged_store import Seen, identity, make, see

FEW = range(60)
"""Seeds of the damages that every run of the tests does."""
MANY = [range(first, first + 250) for first in range(0, 1000, 250)]
"""Those of the long tests: 1,000."""

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
    return Whole(path.read_bytes(), seen, damage.rows_of(path), owned)


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
        strike = damage.BY_BYTES[seed % len(damage.BY_BYTES)]
        data = bytearray(whole.data)
        strike(random.Random(seed), data)
        path.write_bytes(data)
        context = f"damage {seed} by {strike.__name__}"
        seen = see(path)
        where = damage.changed(whole.data, bytes(data))
        _nothing_is_other_or_lost_in_silence(context, whole, seen)
        if "results" in seen.errors:
            outcomes["refused"] += 1
            said = seen.errors["results"]
            assert _is_of_the_file(where, whole) or "malformed" in str(said), f"{context}: {said}"
        else:
            _whole_results_are_shown(context, whole, seen, where)
            outcomes["read" if seen.lines else "nothing lost"] += 1
    assert {*outcomes} == {"refused", "read", "nothing lost"}, "the damages are of different kinds"
