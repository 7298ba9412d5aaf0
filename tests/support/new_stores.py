"""New stores of tests are copies of one that the migrations have made in each process of tests.

alembic takes longer for a store than most tests take with it. A copy is the same to the byte, but
for the number by which SQLite counts changes of a schema. Stores of older schemas are migrated, and
so is one that cannot be written, which says why.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from functools import cache
from pathlib import Path

import pytest

from controller.store import sqlite
from controller.store.connecting import make_engine, stored_revision


@contextmanager
def copied(folder: Path) -> Iterator[None]:
    """Let new stores be copies of one in a folder, which is migrated when one is wanted."""
    migrate: Callable[[Path], None] = sqlite._migrate

    @cache
    def template() -> Path:
        path = folder / "store.sqlite"
        migrate(path)
        return path

    def made(path: Path) -> None:
        if stored_revision(path) is not None or not _is_copied(template(), path):
            migrate(path)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sqlite, "_migrate", made)
        yield


def _is_copied(template: Path, path: Path) -> bool:
    """Copy a store into a file of that path, made as every store's file is; False if that fails."""
    engine = make_engine(path, "rwc", foreign_keys=False)
    try:
        connection = engine.raw_connection()
        try:
            to = connection.driver_connection
            assert isinstance(to, sqlite3.Connection)
            with closing(sqlite3.connect(template)) as source:
                source.backup(to)
        finally:
            connection.close()
    except sqlite3.Error:
        return False
    finally:
        engine.dispose()
    return True
