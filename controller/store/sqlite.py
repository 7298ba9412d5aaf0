"""The SQLite store: one process holds the writer's lock, anyone may read."""

from __future__ import annotations

import os
import threading
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Self

from sqlalchemy import Connection
from sqlalchemy.exc import DatabaseError

from controller.contracts.annotations import SweepAnnotations
from controller.contracts.device import DeviceHistoryEntry, RegisteredAgent, RegisteredDevice
from controller.contracts.errors import (
    HomeUnusable,
    NotFound,
    StoreConflict,
    StoreDamaged,
    StoreUnavailable,
)
from controller.contracts.records import SweepRecord, Token
from controller.contracts.run import Run, RunChange
from controller.platform.locks import exclusive_now
from controller.store import tables
from controller.store.connecting import (
    APPLICATION_ID,
    make_engine,
    stored_revision,
    transaction,
    unusable,
)
from controller.store.keeping import (
    add_packed,
    ids_of_sweep,
    is_packed,
    save_packed,
    sweeps_with_rows,
)
from controller.store.outcome_keys import keys_are_complete, make_keys
from controller.store.packing import pack
from controller.store.reading import SqliteReader
from controller.store.rows import (
    agent_row,
    annotations_row,
    token_row,
)
from controller.store.sound_reader import log
from controller.store.wal import is_being_written, lock_of, lost_commits
from controller.store.writing import (
    execute,
    keep_devices,
    keep_outcome,
    keep_rows,
    keep_runs,
    keep_sweep,
    upsert,
)


class SqliteStore(SqliteReader):
    """The only writer, which also reads; implements Store. Created by `open`."""

    def __init__(self, path: Path, lock: ExitStack) -> None:
        super().__init__(path)
        self._lock = lock
        self._writers = make_engine(path, "rwc")
        self._writing = threading.Lock()

    @classmethod
    def open(cls, path: Path) -> Self:
        """Become the only writer of a store; creates it, or upgrades its schema.

        Raises HomeUnusable if another process is the writer, or if the file can't be a store.
        """
        lock = _take_lock(path)
        lost = lost_commits(path)
        store = cls(path, lock)
        try:
            store.note_of_log(lost)
            if stored_revision(path) != tables.REVISION:
                _migrate(path)
            with store._writers.begin():  # a read-only file fails here, not at the first result
                pass
            store._complete_keys()
            return store
        except DatabaseError as error:
            store.close()
            raise unusable(path, error) from error
        except BaseException:
            store.close()
            raise

    @staticmethod
    def open_reader(
        path: Path,
        tell: Callable[[str], None] = log.error,
        release_revision: str = tables.REVISION,
    ) -> SqliteReader:
        """Open a store for reading, whether or not a writer runs; changes nothing.

        tell: given a line about each thing in it that is damaged. release_revision: the schema
        that this release reads. Raises NotFound if nothing was stored yet, HomeUnusable if the
        file is not a store of that schema.
        """
        lost = None if is_being_written(path) else lost_commits(path)
        reader, revision = SqliteReader(path, tell), stored_revision(path)
        if revision is None:
            raise NotFound(
                f"read the store {path}",
                "nothing is stored yet",
                "Start the farm with `benchfarm up`, or set BENCHFARM_HOME to another farm's.",
            )
        if revision != release_revision:
            raise HomeUnusable(
                f"read the store {path}",
                f"its schema {revision} is older than this release's {release_revision}",
                "Start the farm once with this release: `benchfarm up`.",
            )
        reader.note_of_log(lost)
        return reader

    def add_sweep(self, record: SweepRecord, runs: Sequence[Run]) -> list[Run]:
        """Store a sweep and those of its runs that are new; return the new ones.

        Raises StoreConflict if another sweep has a run of the same id, and StoreUnavailable.
        """
        # Before the transaction, which blocks all other writers.
        packed, unsaid = pack(runs)
        with self._transaction() as connection:
            known = ids_of_sweep(connection, record.sweep_id)
            if known is None:
                return []  # the runs of a damaged record are unknown
            new = [run for run in runs if run.run_id not in known]
            others = {run.run_id for run in unsaid}
            self._require_free(connection, new, others)
            keep_sweep(connection, record, len(known) + len(new))
            keep_runs(connection, add_packed(connection, packed, others, new))
        return new

    def save_runs(self, changes: Sequence[RunChange]) -> None:
        """Store the present state of runs, with outcomes; raises StoreConflict, StoreUnavailable.

        An outcome is never overwritten: saving the same one again has no effect, another is
        refused.
        """
        try:
            self._save_runs(changes, save_packed)
        except StoreDamaged:  # a page of packed records can't be read: give the runs rows
            self._save_runs(changes, lambda _, runs: [*runs])

    def _save_runs(
        self,
        changes: Sequence[RunChange],
        rowless: Callable[[Connection, Iterable[Run]], list[Run]],
    ) -> None:
        """rowless: stores runs without rows, and returns those that need rows now."""
        runs = [change.run for change in changes]
        with self._transaction() as connection:
            there = sweeps_with_rows(connection, runs)
            self._require_same_sweeps(runs, there)
            first = rowless(connection, (run for run in runs if run.run_id not in there))
            keep_runs(connection, first)
            keep_rows(connection, [run for run in runs if run.run_id in there])
            for change in changes:
                record = change.record
                if record and not keep_outcome(connection, change.run, record):
                    said = f"run {record.run_id} attempt {record.attempt}"
                    raise StoreConflict(str(self._path), f"{said} already has another outcome")

    def save_agent(
        self,
        agent: RegisteredAgent,
        devices: Sequence[RegisteredDevice],
        events: Sequence[DeviceHistoryEntry] = (),
    ) -> None:
        """Store the present state of an agent and its devices, and the devices' events."""
        with self._transaction() as connection:
            execute(connection, upsert(tables.agents), [agent_row(agent)])
            keep_devices(connection, devices, events)

    def save_devices(
        self, devices: Sequence[RegisteredDevice], events: Sequence[DeviceHistoryEntry]
    ) -> None:
        """Store the present state of devices, and their events."""
        with self._transaction() as connection:
            keep_devices(connection, devices, events)

    def save_token(self, token: Token) -> None:
        """Store the present state of a token."""
        with self._transaction() as connection:
            execute(connection, upsert(tables.tokens), [token_row(token)])

    def save_annotations(self, annotations: SweepAnnotations) -> None:
        """Store the present tags and notes of a sweep."""
        with self._transaction() as connection:
            execute(connection, upsert(tables.sweep_annotations), [annotations_row(annotations)])

    def close(self) -> None:
        """Release the store and its lock; called once, last."""
        super().close()
        self._writers.dispose()
        self._lock.close()

    @contextmanager
    def _transaction(self) -> Iterator[Connection]:
        # Threads take turns here, because SQLite makes waiting ones sleep even for short
        # transactions.
        with self._writing, transaction(self._writers, self._path) as connection:
            yield connection

    def _complete_keys(self) -> None:
        """Make the keys of outcomes if they are missing, as in a store of an earlier release.

        If that fails, the farm runs as well: only lists need them, and say so.
        """
        with suppress(StoreUnavailable), self._transaction() as connection:
            if not keys_are_complete(connection):
                make_keys(connection)

    def _require_free(self, connection: Connection, new: Sequence[Run], others: set[str]) -> None:
        """Raise StoreConflict if another sweep has a run of the same id.

        others: ids not derived from sweep, cell and repeat, so that any sweep may have them.
        """
        self._require_same_sweeps(new, sweeps_with_rows(connection, new))
        unusual = others & {run.run_id for run in new}
        if unusual and is_packed(connection, unusual):
            raise StoreConflict(str(self._path), "another sweep has a run of the same id")

    def _require_same_sweeps(self, runs: Iterable[Run], sweeps: Mapping[str, str]) -> None:
        for run in runs:
            if sweeps.get(run.run_id, run.sweep_id) != run.sweep_id:
                raise StoreConflict(str(self._path), f"another sweep has a run {run.run_id}")


def _migrate(path: Path) -> None:
    from controller.store.migrate import upgrade  # slow to load; only for new stores

    # SQLite alters a table by recreating it, which enforced foreign keys would forbid.
    engine = make_engine(path, "rwc", foreign_keys=False)
    try:
        with engine.begin() as connection:
            connection.exec_driver_sql(f"PRAGMA application_id = {APPLICATION_ID}")
            before = _loose_rows(connection)  # those that damage has left are named by `check`
            upgrade(connection)
            if orphaned := (_loose_rows(connection) - before).total():
                raise StoreUnavailable(str(path), f"its migration would orphan {orphaned} rows")
    finally:
        engine.dispose()


def _loose_rows(connection: Connection) -> Counter[tuple[str, str]]:
    """Return how many rows of each table refer to rows of another that are not there."""
    found = connection.exec_driver_sql("PRAGMA foreign_key_check").all()
    return Counter((table, referred) for table, _, referred, _ in found)


def _take_lock(path: Path) -> ExitStack:
    """Lock out every other writer until what is returned is closed, or the process dies."""
    lock = lock_of(path)
    with ExitStack() as held:
        try:
            if held.enter_context(exclusive_now(lock)):
                lock.write_text(f"{os.getpid()}\n")
                return held.pop_all()
            owner = lock.read_text().strip()
        except OSError as error:
            raise unusable(path, error) from error
    raise HomeUnusable(
        f"open the store {path}",
        f"another process writes to it: {owner or 'just starting'}",
        "Stop that farm with `benchfarm down`, or set another BENCHFARM_HOME.",
    )
