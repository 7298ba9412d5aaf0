"""The migrations give the schema of tables.py, and new ones can be written."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest
from alembic.autogenerate import compare_metadata
from alembic.migration import MigrationContext
from alembic.script import ScriptDirectory
from sqlalchemy import Column, Connection, Integer, Table, create_engine, inspect

from controller.contracts.run import RunChange
from controller.scheduling.lifecycle import Cancelled, Resumed
from controller.store import migrate, tables
from controller.store.sqlite import SqliteStore
from tests.support.store_examples import AGENT, CPU, change, grant, runs_for, sweep_record


@pytest.fixture
def connection() -> Iterator[Connection]:
    engine = create_engine("sqlite://")
    with engine.begin() as connection:
        yield connection
    engine.dispose()


def _schema(connection: Connection) -> dict[str, list[str]]:
    """Return what each table, index and so on is made by, a table's constraints in sorted order."""
    rows = connection.exec_driver_sql("SELECT name, sql FROM sqlite_master WHERE sql IS NOT NULL")
    # SQLite quotes the name of a table that was made anew.
    text = {name: " ".join(sql.split()).replace('"', "") for name, sql in rows}
    # Made anew, a table has them in any order.
    parts = {name: sql.removesuffix(" )").split(", CONSTRAINT ") for name, sql in text.items()}
    return {n: [*p[:1], *sorted(p[1:])] for n, p in parts.items() if n != "alembic_version"}


def test_migrating_from_nothing_gives_the_tables(connection: Connection) -> None:
    migrate.upgrade(connection)
    context = MigrationContext.configure(connection)
    assert compare_metadata(context, tables.metadata) == []


def test_migrating_gives_the_same_text_as_the_tables(connection: Connection) -> None:
    """Says more than alembic's comparison: keys, partial indexes and the order of columns."""
    tables.metadata.create_all(connection)
    declared = _schema(connection)
    tables.metadata.drop_all(connection)
    assert _schema(connection) == {}
    migrate.upgrade(connection)
    assert _schema(connection) == declared


def test_the_newest_migration_is_the_revision_of_the_tables() -> None:
    scripts = ScriptDirectory.from_config(migrate.configuration(None))
    assert scripts.get_heads() == [tables.REVISION]


def test_migrating_twice_changes_nothing(connection: Connection) -> None:
    migrate.upgrade(connection)
    before = _schema(connection)
    migrate.upgrade(connection)
    assert _schema(connection) == before


def test_runs_that_no_record_can_say_have_rows_and_are_leased_cancelled_and_resumed(
    tmp_path: Path,
) -> None:
    record = sweep_record()
    runs = runs_for(record)
    changes = [grant(runs[0]), change(runs[1], Cancelled(), 5.0), RunChange(runs[2])]
    path = tmp_path / "store.sqlite"
    with closing(SqliteStore.open(path)) as store:
        store.save_agent(AGENT, [CPU])
        store.add_sweep(record, [run.model_copy(update={"position": 9}) for run in runs])
        store.save_runs([RunChange(run) for run in runs])
        assert store.runs() == runs
    with closing(SqliteStore.open(path)) as store:
        store.save_runs(changes)
        changes[1] = change(changes[1].run, Resumed(), 6.0)
        store.save_runs(changes)
        assert store.runs() == [one.run for one in changes]
        assert store.add_sweep(record, runs) == []
        assert store.tally(record.sweep_id).lost == 0
        assert store.damage() == []


def test_a_new_migration_is_written_from_the_tables(tmp_path: Path, connection: Connection) -> None:
    scripts = tmp_path / "migrations"
    shutil.copytree(Path(migrate.__file__).parent / "migrations", scripts)
    extra = Table("extra", tables.metadata, Column("number", Integer, primary_key=True))
    try:
        migrate.revise("add extra", str(scripts))
    finally:
        tables.metadata.remove(extra)
    following = f"{int(tables.REVISION) + 1:04}"
    text = (scripts / "versions" / f"{following}_add_extra.py").read_text()
    assert f'down_revision = "{tables.REVISION}"' in text
    migrate.upgrade(connection, str(scripts))
    assert inspect(connection).has_table("extra")


def test_the_first_migration_is_the_only_one_that_follows_none() -> None:
    scripts = ScriptDirectory.from_config(migrate.configuration(None))
    assert scripts.get_bases() == [tables.FIRST_REVISION]
