"""What opening a SQLite store accepts, refuses and sets."""

from __future__ import annotations

import logging
import os
import sqlite3
import subprocess
import sys
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest

from controller.contracts.errors import HomeUnusable, NotFound, UserError
from controller.store.connecting import make_engine
from controller.store.sqlite import SqliteStore
from tests.support.store_examples import AGENT, CPU

ROOT = Path(__file__).parents[3]


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "store.sqlite"


def _garbage(path: Path) -> None:
    path.write_bytes(b"not a database, " * 1000)


def _directory(path: Path) -> None:
    path.mkdir()


def _of_another_program(path: Path) -> None:
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("CREATE TABLE runs (id INTEGER)")


def _damaged(path: Path) -> None:
    SqliteStore.open(path).close()
    with path.open("r+b") as file:
        file.seek(4096)
        file.write(b"\xff" * (path.stat().st_size - 4096))


def _at_revision(revision: str) -> Callable[[Path], None]:
    def make(path: Path) -> None:
        SqliteStore.open(path).close()
        with closing(sqlite3.connect(path)) as connection, connection:
            connection.execute("UPDATE alembic_version SET version_num = ?", (revision,))

    return make


@pytest.mark.parametrize(
    ("make", "seen"),
    [
        (_garbage, "file is not a database"),
        (_directory, "it is not a file"),
        (_of_another_program, "it is another program's database"),
        (_damaged, "database disk image is malformed"),
        (_at_revision("9999"), "its schema 9999 is newer than this release's"),
    ],
)
@pytest.mark.parametrize("opener", [SqliteStore.open, SqliteStore.open_reader])
def test_what_is_not_our_store_is_refused_and_left_alone(
    path: Path, make: Callable[[Path], None], seen: str, opener: Callable[[Path], object]
) -> None:
    make(path)
    before = path.read_bytes() if path.is_file() else None
    for _ in range(2):  # the second time shows that a refused writer has let go of its lock
        with pytest.raises(HomeUnusable, match=f"open the store {path}: {seen}") as caught:
            opener(path)
        assert "\n" not in str(caught.value)
    assert before == (path.read_bytes() if path.is_file() else None)


def test_a_reader_leaves_an_older_schema_to_the_writer(path: Path) -> None:
    SqliteStore.open(path).close()
    with pytest.raises(HomeUnusable, match="is older than this release's 9999"):
        SqliteStore.open_reader(path, release_revision="9999")


def test_a_reader_of_nothing_says_that_nothing_is_stored(path: Path) -> None:
    with pytest.raises(NotFound, match="nothing is stored yet"):
        SqliteStore.open_reader(path)
    assert not path.exists()
    path.touch()  # a writer has just begun
    with pytest.raises(NotFound, match="nothing is stored yet"):
        SqliteStore.open_reader(path)
    with closing(SqliteStore.open(path)) as store:
        assert store.runs() == []


@pytest.mark.parametrize("opener", [SqliteStore.open, SqliteStore.open_reader])
def test_a_missing_folder_is_a_user_error(tmp_path: Path, opener: Callable[[Path], object]) -> None:
    with pytest.raises(UserError, match="missing"):
        opener(tmp_path / "missing" / "store.sqlite")


def test_a_second_writer_is_refused_until_the_first_closes(path: Path) -> None:
    first = SqliteStore.open(path)
    with pytest.raises(HomeUnusable, match=f"another process writes to it: {os.getpid()}"):
        SqliteStore.open(path)
    first.close()
    SqliteStore.open(path).close()


def test_a_reader_needs_no_writer_and_can_not_write(path: Path) -> None:
    with closing(SqliteStore.open(path)) as store:
        store.save_agent(AGENT, [CPU])
        with closing(SqliteStore.open_reader(path)) as reader:
            assert reader.fleet() == ([AGENT], [CPU])
    with closing(SqliteStore.open_reader(path)) as reader:
        assert reader.fleet() == ([AGENT], [CPU])
    engine = make_engine(path, "ro")
    with pytest.raises(Exception, match="readonly"), engine.begin() as connection:
        connection.exec_driver_sql("DELETE FROM devices")
    engine.dispose()


def test_the_writers_connections_are_durable_and_check_keys(path: Path) -> None:
    SqliteStore.open(path).close()
    engine = make_engine(path, "rwc")
    pragmas = ("journal_mode", "synchronous", "foreign_keys", "busy_timeout")
    with engine.begin() as connection:
        values = [connection.exec_driver_sql(f"PRAGMA {name}").scalar_one() for name in pragmas]
    engine.dispose()
    full, on = 2, 1
    assert values == ["wal", full, on, 5000]


def test_migrating_leaves_logging_alone(path: Path) -> None:
    root, mine = logging.getLogger(), logging.getLogger("controller.store.test")
    before = (root.level, list(root.handlers))
    SqliteStore.open(path).close()
    assert (root.level, list(root.handlers)) == before
    assert not mine.disabled


def test_only_a_store_to_migrate_loads_alembic(path: Path) -> None:
    SqliteStore.open(path).close()
    code = (
        "import sys; from pathlib import Path; from controller.store.sqlite import SqliteStore\n"
        "path = Path(sys.argv[1])\n"
        "SqliteStore.open_reader(path).close(); SqliteStore.open(path).close()\n"
        "sys.exit('alembic' in sys.modules)"
    )
    command = [sys.executable, "-c", code, str(path)]
    subprocess.run(command, check=True, env={**os.environ, "PYTHONPATH": str(ROOT)})
