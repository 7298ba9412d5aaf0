"""How SQLite is opened: what is checked before, how it is set, and what its errors become."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Literal

from sqlalchemy import Connection, Engine, QueuePool, create_engine, event
from sqlalchemy.exc import DatabaseError, IntegrityError

from controller.contracts.errors import HomeUnusable, StoreConflict, StoreUnavailable
from controller.store.tables import REVISION

APPLICATION_ID = 0x62656E63
"""SQLite's mark of whose file it is, `PRAGMA application_id`: "benc"."""

BUSY_TIMEOUT_S = 5.0
"""How long to wait for SQLite's own short locks, as while a killed writer's log is recovered."""

Mode = Literal["ro", "rwc"]


def stored_revision(path: Path) -> str | None:
    """Return the schema of a store without changing it; None if nothing was ever stored.

    Raises HomeUnusable for a file that can't be read, is not a store of benchfarm's, or comes
    from a newer release.
    """
    try:
        if not path.exists():
            return None
        if not path.is_file():
            raise OSError("it is not a file")
        with closing(_connect(path, "ro")) as connection:
            (owner,) = connection.execute("PRAGMA application_id").fetchone()
            (tables,) = connection.execute("SELECT count(*) FROM sqlite_master").fetchone()
            if owner == 0 and tables == 0:
                return None
            if owner != APPLICATION_ID:
                raise HomeUnusable(
                    f"opening the store {path}",
                    "it is a database of another program",
                    "point BENCHFARM_HOME at a directory of benchfarm's own",
                )
            (revision,) = connection.execute("SELECT version_num FROM alembic_version").fetchone()
    except (OSError, sqlite3.Error) as error:
        raise unusable(path, error) from error
    if revision > REVISION:
        raise HomeUnusable(
            f"opening the store {path}",
            f"its schema {revision} is newer than this release's {REVISION}",
            "install the release of benchfarm that wrote it",
        )
    return str(revision)


def unusable(path: Path, error: Exception) -> HomeUnusable:
    """Say that a store can't be opened, in the words of whoever refused."""
    return HomeUnusable(
        f"opening the store {path}",
        str(getattr(error, "orig", error)),
        "make it readable and writable, restore it from a backup, or set another BENCHFARM_HOME",
    )


def make_engine(path: Path, mode: Mode, *, foreign_keys: bool = True) -> Engine:
    """Return an engine on a store's file; `ro` never writes, `rwc` locks out other writers."""

    def connect() -> sqlite3.Connection:
        connection = _connect(path, mode)
        if mode == "rwc":
            connection.execute(f"PRAGMA foreign_keys = {'ON' if foreign_keys else 'OFF'}")
            connection.execute("PRAGMA synchronous = FULL")  # a commit survives a power cut
            (journal,) = connection.execute("PRAGMA journal_mode = WAL").fetchone()
            if journal != "wal":
                connection.close()
                raise sqlite3.OperationalError("its file system can't hold a write-ahead log")
        return connection

    engine = create_engine("sqlite://", creator=connect, poolclass=QueuePool)
    begin = "BEGIN IMMEDIATE" if mode == "rwc" else "BEGIN"

    # The driver would begin only at the first write: reads would see several snapshots.
    @event.listens_for(engine, "begin")
    def _begin(connection: Connection) -> None:
        connection.exec_driver_sql(begin)

    return engine


def _connect(path: Path, mode: Mode) -> sqlite3.Connection:
    return sqlite3.connect(
        f"{path.absolute().as_uri()}?mode={mode}",
        uri=True,
        timeout=BUSY_TIMEOUT_S,
        isolation_level=None,
        check_same_thread=False,  # the pool hands a connection to one thread at a time
    )


@contextmanager
def transaction(engine: Engine, path: Path) -> Iterator[Connection]:
    """Do everything inside in one transaction, or nothing.

    Raises StoreConflict where a key or a constraint forbids it, else StoreUnavailable.
    """
    try:
        with engine.begin() as connection:
            yield connection
    except IntegrityError as error:
        raise StoreConflict(str(path), str(error.orig)) from error
    except DatabaseError as error:
        raise StoreUnavailable(str(path), str(error.orig)) from error
