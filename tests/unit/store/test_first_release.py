"""A store of before the first release, 0.2.0: the newest schema opens, older ones are refused."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

import pytest
from sqlalchemy import Connection
from typer.testing import CliRunner

from controller.cli.main import app
from controller.contracts.errors import HomeUnusable, StoreUnavailable, UserError
from controller.store import migrate, tables
from controller.store.connecting import CONVERTER
from controller.store.integrity import check, salvage
from controller.store.sqlite import SqliteStore

DATA = Path(__file__).parent / "data"
NEWEST = "store_0011.sql"
OLDER = "store_0008.sql"
TOO_OLD = [f"{number:04}" for number in range(11)]


def _store(home: Path, dump: str, revision: str | None = None) -> Path:
    path = home / "store.sqlite"
    with closing(sqlite3.connect(path)) as connection, connection:
        connection.executescript((DATA / dump).read_text())
        if revision is not None:
            connection.execute("UPDATE alembic_version SET version_num = ?", (revision,))
    return path


def _rows(path: Path) -> dict[str, int]:
    with closing(sqlite3.connect(path)) as connection:
        return {
            name: connection.execute(f"SELECT count(*) FROM {name}").fetchone()[0]
            for name in tables.metadata.tables
            if connection.execute("SELECT 1 FROM sqlite_master WHERE name = ?", (name,)).fetchone()
        }


def test_the_newest_one_is_that_of_the_release_and_nothing_in_it_is_lost(tmp_path: Path) -> None:
    path = _store(tmp_path, NEWEST)
    before = _rows(path)
    with pytest.raises(HomeUnusable, match="Start the farm once with this release"):
        SqliteStore.open_reader(path)
    SqliteStore.open(path).close()
    outcomes = before["outcomes"]
    assert outcomes > 40
    assert _rows(path) == {**before, "sweep_annotations": 0, "outcome_keys": outcomes}
    found = check(path)
    assert found.damage == []
    kept = {"sweeps": 4, "runs": 48, "results": 36, "failures": 8}
    assert kept.items() <= found.sound.items()


def _lose(path: Path, device_id: str) -> None:
    with closing(sqlite3.connect(path)) as connection, connection:
        connection.execute("DELETE FROM devices WHERE device_id = ?", (device_id,))


def _rows_on(path: Path, device_id: str) -> int:
    """Return how many rows refer to a device."""
    with closing(sqlite3.connect(path)) as connection:
        queries = (
            f"SELECT count(*) FROM {table} WHERE device_id = ?"
            for table in ("attempts", "device_events")
        )
        return sum(connection.execute(query, (device_id,)).fetchone()[0] for query in queries)


def test_the_newest_one_is_migrated_with_rows_that_refer_to_lost_ones(tmp_path: Path) -> None:
    path = _store(tmp_path, NEWEST)
    before, loose = _rows(path), _rows_on(path, "phone-1")
    _lose(path, "phone-1")
    SqliteStore.open(path).close()
    found = check(path)
    named = [line for line in found.damage if line.endswith("refers to no devices")]
    assert len(named) == loose > 10
    assert found.sound["results"] == 36
    assert _rows(path)["attempts"] == before["attempts"]
    salvage(path, tmp_path / "new.sqlite")
    SqliteStore.open(tmp_path / "new.sqlite").close()


def test_a_migration_that_would_orphan_rows_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path, upgrade = _store(tmp_path, NEWEST), migrate.upgrade
    _lose(path, "phone-1")
    before = _rows(path)

    def careless(connection: Connection) -> None:
        upgrade(connection)
        connection.exec_driver_sql("DELETE FROM devices")

    monkeypatch.setattr(migrate, "upgrade", careless)
    with pytest.raises(StoreUnavailable, match=f"orphan {_rows_on(path, 'host-1')} rows"):
        SqliteStore.open(path)
    assert _rows(path) == before, "nothing of it is kept"


@pytest.mark.parametrize("revision", TOO_OLD)
@pytest.mark.parametrize("opener", [SqliteStore.open, SqliteStore.open_reader, check])
def test_an_older_one_is_refused_in_one_line_and_left_alone(
    tmp_path: Path, revision: str, opener: type
) -> None:
    path = _store(tmp_path, OLDER, revision)
    before = path.read_bytes()
    with pytest.raises(HomeUnusable) as caught:
        opener(path)
    said = str(caught.value)
    assert f"its schema {revision} is older than the first release, 0.2.0" in said
    assert f"benchfarm 0.1.0 of commit {CONVERTER}" in said
    assert "benchfarm results export" in said
    assert "\n" not in said
    assert path.read_bytes() == before


@pytest.mark.parametrize(
    "command", [["results", "list"], ["store", "check"], ["store", "salvage", "new.sqlite"]]
)
def test_commands_refuse_it_as_a_users_mistake(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, command: list[str]
) -> None:
    monkeypatch.setenv("BENCHFARM_HOME", str(tmp_path))
    monkeypatch.chdir(tmp_path)
    path = _store(tmp_path, OLDER)
    before = path.read_bytes()
    error = CliRunner().invoke(app, command).exception
    assert isinstance(error, UserError)  # exit status 2, see main
    assert path.read_bytes() == before
    assert not Path("new.sqlite").exists()
