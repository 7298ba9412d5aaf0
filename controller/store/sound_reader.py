"""The base of readers of the SQLite store: snapshots, and reports of what is damaged."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeVar

from sqlalchemy import Connection

from controller.store.connecting import make_engine, transaction
from controller.store.snapshot import Snapshot, named

log = logging.getLogger(__name__)

Item = TypeVar("Item")


class SoundReader:
    """Reads sound records through connections of its own.

    Damaged records are left out; `tell` receives a line about each, once.
    """

    def __init__(self, path: Path, tell: Callable[[str], None] = log.error) -> None:
        self._path = path
        self._readers = make_engine(path, "ro")
        self._tell = tell
        self._told: dict[str, str] = {}

    def damage(self) -> list[str]:
        """Return what could not be read so far, and why."""
        return [f"{what}: {why}" for what, why in self._told.items()]

    def note_of_log(self, why: str | None) -> None:
        """Record a loss of the write-ahead log, if any; called once, first."""
        if why:
            self._note("the end of the write-ahead log, and so the newest of what was stored", why)

    def close(self) -> None:
        """Release the store's file; called once, last."""
        self._readers.dispose()

    @contextmanager
    def _snapshot(self) -> Iterator[tuple[Snapshot, Connection]]:
        with transaction(self._readers, self._path, read_only=True) as connection:
            yield Snapshot(connection, self._note), connection

    def _note(self, what: str, why: str) -> None:
        if what not in self._told:
            self._told[what] = why
            self._tell(f"cannot read {what}: {why}. It is left out; see: benchfarm store check")

    def _made(
        self, rows: Iterable[Any], make: Callable[[Any], Item], noun: str, key: str
    ) -> list[Item]:
        """Return the records of sound rows; report those that this release does not understand."""
        found = []
        for said in rows:
            try:
                found.append(make(said))
            except (ValueError, TypeError, ArithmeticError) as error:
                row = said[0] if isinstance(said, tuple) else said
                why = f"this release does not understand it: {' '.join(str(error).split())}"
                self._note(f"{noun} {named(row[key])}", why)
        return found
