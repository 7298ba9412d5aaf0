"""Opening of SQLite: checks before, settings, and the translation of its errors."""

from __future__ import annotations

import json
import re
import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

from sqlalchemy import Connection, Engine, QueuePool, create_engine, event
from sqlalchemy.exc import DatabaseError, IntegrityError

from controller.contracts.base import canonical_json
from controller.contracts.errors import HomeUnusable, StoreConflict, StoreDamaged, StoreUnavailable
from controller.store import driver
from controller.store.scanning import is_damage
from controller.store.tables import FIRST_REVISION, REVISION, metadata

APPLICATION_ID = 0x62656E63
"""SQLite's identification of a file's application, `PRAGMA application_id`: "benc"."""

CONVERTER = "fb98d14"
"""The commit of 0.1.0 that converts every store from before the first release to FIRST_REVISION."""

UNREADABLE = object()
"""Stands for a column's content that is not JSON; it matches no checksum."""

MALFORMED = "database disk image is malformed"
"""SQLite's message for some kinds of damage, but not for all."""


def stored_revision(path: Path) -> str | None:
    """Return the schema revision of a store without changing it; None if nothing was ever stored.

    Raises HomeUnusable for a file that can't be read, is not a store of benchfarm, or comes from a
    newer release or from before the first one.
    """
    try:
        if not path.exists():
            return None
        if not path.is_file():
            raise OSError("it is not a file")
        with closing(driver.connect(path, "ro")) as connection:
            (owner,) = connection.execute("PRAGMA application_id").fetchone()
            (tables,) = connection.execute("SELECT count(*) FROM sqlite_master").fetchone()
            if owner == 0 and tables == 0:
                return None
            if owner != APPLICATION_ID:
                raise HomeUnusable(
                    f"open the store {path}",
                    "it is another program's database",
                    "Set BENCHFARM_HOME to a directory of benchfarm's own.",
                )
            revision = _revision(connection)
    except (OSError, sqlite3.Error, MemoryError, UnicodeDecodeError) as error:
        raise unusable(path, error) from error
    if revision > REVISION:
        raise HomeUnusable(
            f"open the store {path}",
            f"its schema {revision} is newer than this release's {REVISION}",
            "Install the release of benchfarm that wrote it.",
        )
    if revision < FIRST_REVISION:
        raise HomeUnusable(
            f"open the store {path}",
            f"its schema {revision} is older than the first release, 0.2.0",
            f"Convert it with benchfarm 0.1.0 of commit {CONVERTER} (`benchfarm up`, then "
            "`benchfarm down`), or export its results there with `benchfarm results export`.",
        )
    return revision


def _revision(connection: sqlite3.Connection) -> str:
    """Return a store's schema revision; if its number is damaged, derive it from the columns.

    Raises sqlite3.Error.
    """
    try:
        found = connection.execute("SELECT version_num FROM alembic_version NOT INDEXED").fetchall()
    except (sqlite3.Error, MemoryError, UnicodeDecodeError) as error:
        if not is_damage(error):
            raise
        found = []
    if len(found) == 1 and re.fullmatch("[0-9]{4}", str(found[0][0])):
        return str(found[0][0])
    for table in metadata.sorted_tables:
        columns = connection.execute(f"PRAGMA table_info({table.name})").fetchall()
        if [column[1] for column in columns] != [column.name for column in table.columns]:
            raise sqlite3.DatabaseError("the number of its schema is damaged")
    return REVISION


def unusable(path: Path, error: Exception) -> HomeUnusable:
    """Return the error for a store that can't be opened, with the text of the cause."""
    remedy = "Make it readable and writable, restore it from a backup"
    if is_damage(error):
        remedy = (
            "Restore it from a backup, save what is left with `benchfarm store salvage NEWFILE`"
        )
    seen = " ".join(ascii(str(getattr(error, "orig", error)))[1:-1].split())
    return HomeUnusable(f"open the store {path}", seen, f"{remedy}, or set another BENCHFARM_HOME.")


def make_engine(path: Path, mode: driver.Mode, *, foreign_keys: bool = True) -> Engine:
    """Return an engine on a store's file; with `ro` it never writes, with `rwc` it locks out other
    writers."""

    def connect() -> sqlite3.Connection:
        connection = driver.connect(path, mode)
        if mode == "rwc":
            connection.execute(f"PRAGMA foreign_keys = {'ON' if foreign_keys else 'OFF'}")
            connection.execute("PRAGMA synchronous = FULL")  # a commit survives a power cut
            (journal,) = connection.execute("PRAGMA journal_mode = WAL").fetchone()
            if journal != "wal":
                connection.close()
                raise sqlite3.OperationalError("its file system can't hold a write-ahead log")
        return connection

    engine = create_engine(
        "sqlite://",
        creator=connect,
        poolclass=QueuePool,
        json_serializer=canonical_json,
        json_deserializer=_parse,
    )
    begin = "BEGIN IMMEDIATE" if mode == "rwc" else "BEGIN"

    # The driver would begin a transaction only at the first write, so reads would see several
    # snapshots.
    @event.listens_for(engine, "begin")
    def _begin(connection: Connection) -> None:
        connection.exec_driver_sql(begin)

    return engine


def _parse(raw: Any) -> Any:  # noqa: ANN401 - of a column of type JSON, where anything may be
    try:
        return json.loads(raw)
    except (TypeError, ValueError, RecursionError):
        return UNREADABLE


def _damage(error: DatabaseError) -> str:
    said = ascii(str(error.orig))[1:-1]
    return said if MALFORMED in said else f"{MALFORMED}: {said}"


@contextmanager
def transaction(engine: Engine, path: Path, *, read_only: bool = False) -> Iterator[Connection]:
    """Run the block in one transaction.

    read_only: roll back at the end, since after reading past damage SQLite refuses even to commit.
    Raises StoreConflict if a key or constraint is violated, StoreDamaged if SQLite can't parse the
    file, else StoreUnavailable.
    """
    try:
        with engine.connect() as connection, connection.begin():
            yield connection
            if read_only:
                connection.rollback()
    except IntegrityError as error:
        raise StoreConflict(str(path), str(error.orig)) from error
    except DatabaseError as error:
        if is_damage(error):
            raise StoreDamaged(str(path), _damage(error)) from error
        raise StoreUnavailable(str(path), str(error.orig)) from error
    except (MemoryError, UnicodeDecodeError) as error:
        raise StoreDamaged(str(path), MALFORMED) from error
