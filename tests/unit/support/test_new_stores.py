"""New stores of tests are as the migrations make them."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

from controller.store import tables
from controller.store.connecting import make_engine, stored_revision
from controller.store.migrate import upgrade
from controller.store.sqlite import SqliteStore


def _dump(path: Path) -> list[str]:
    with closing(sqlite3.connect(path)) as connection:
        return [*connection.iterdump()]


def test_a_copy_has_what_the_migrations_make(tmp_path: Path) -> None:
    copy, migrated = tmp_path / "copy.sqlite", tmp_path / "migrated.sqlite"
    SqliteStore.open(copy).close()
    assert stored_revision(copy) == tables.REVISION
    engine = make_engine(migrated, "rwc", foreign_keys=False)
    with engine.begin() as connection:
        upgrade(connection)
    engine.dispose()
    assert len(_dump(migrated)) > len(tables.metadata.tables)
    assert _dump(copy) == _dump(migrated)


def test_what_is_stored_in_one_is_in_no_other(tmp_path: Path) -> None:
    first, second = tmp_path / "first.sqlite", tmp_path / "second.sqlite"
    SqliteStore.open(first).close()
    with closing(sqlite3.connect(first)) as connection:
        connection.execute("CREATE TABLE planted (a)")
    SqliteStore.open(second).close()
    assert any("planted" in line for line in _dump(first))
    assert not any("planted" in line for line in _dump(second))
