"""A small store with something of everything, and what its readers make of it."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Hashable
from contextlib import closing
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from controller.contracts.annotations import Note, SweepAnnotations
from controller.contracts.device import DeviceHistoryEntry, DeviceLife, DeviceState, Hold
from controller.contracts.errors import BenchfarmError
from controller.contracts.records import OutcomeOrigin, StoredResult, Token
from controller.contracts.result import Validity
from controller.contracts.run import RunChange
from controller.store import sqlite
from controller.store.reading import SqliteReader
from controller.store.sqlite import SqliteStore
from controller.store.wal import lock_of, lost_commits
from tests.support.store_examples import (
    AGENT,
    CPU,
    PHONE,
    failure,
    grant,
    lose,
    report,
    result,
    runs_for,
    sweep_record,
)

HELD = PHONE.model_copy(
    update={"life": DeviceLife(quarantine=Hold(since=3.0, who="ann", why="its screen is broken"))}
)

(CELL,) = {run.cell.key: run.cell for run in runs_for(sweep_record())}.values()

READS: dict[str, Callable[[SqliteReader], list[object]]] = {
    "sweeps": lambda store: [*store.sweeps()],
    "annotations": lambda store: [*store.annotations().values()],
    "runs": lambda store: [*store.runs()],
    "open runs": lambda store: [*store.runs(open_only=True)],
    "results": lambda store: [*store.results()],
    "failures": lambda store: [*store.failures()],
    "agents": lambda store: [*store.fleet()[0]],
    "devices": lambda store: [*store.fleet()[1]],
    "tokens": lambda store: [*store.tokens()],
    "history": lambda store: [*store.history("phone-1"), *store.history("host-1")],
    "spent": lambda store: [*store.spent(0.0)],
    "took": lambda store: [*store.took([CELL])],
}


@dataclass(slots=True)
class Seen:
    """What was read by each of READS, and what was said."""

    records: dict[str, list[object]] = field(default_factory=dict)
    errors: dict[str, BenchfarmError] = field(default_factory=dict)
    lines: list[str] = field(default_factory=list)


def fill(store: SqliteStore, sweeps: int = 4, repeats: int = 12) -> None:
    """Keep some sweeps: results, invalid ones, retried ones, late ones, failures, open runs."""
    event = DeviceHistoryEntry(
        device_id="phone-1", at=3.0, state=DeviceState.QUARANTINED, who="ann", why="by hand"
    )
    store.save_agent(AGENT, [CPU, HELD], [event])
    store.save_token(Token(name="ann", digest="ab" * 32, created_at=1.0))
    store.save_token(Token(name="bob", digest="cd" * 32, created_at=2.0, revoked_at=4.0))
    for generation in range(1, sweeps + 1):
        record = sweep_record(generation=generation, repeats=repeats)
        runs = store.add_sweep(record, runs_for(record))
        store.save_annotations(words_on(record.sweep_id, generation))
        for number, run in enumerate(runs[:-1]):
            now = 2000.0 + 100 * number
            leased = grant(run, [CPU, HELD][number % 2], now)
            store.save_runs([leased])
            for change in _course(number, leased, now):
                store.save_runs([change])


def words_on(sweep_id: str, generation: int) -> SweepAnnotations:
    """Return tags and a note for a sweep; the second note has been removed."""
    note = Note(number=1, text="=1+1 <b>törö</b>", who="ann", at=3000.25)
    return SweepAnnotations(
        sweep_id=sweep_id, tags=(f"g{generation}", "paper"), notes=(note,), noted=2
    )


def _course(number: int, leased: RunChange, now: float) -> list[RunChange]:
    step_s = 0.1 + number / 7
    if number % 6 == 3:
        return [report(leased.run, failure(), now=now + 1)]
    if number % 6 == 4:
        lost = lose(leased.run, now + 30)
        again = grant(lost.run, CPU, now + 40)
        return [lost, again, report(again.run, result(step_s), 2, now + 50)]
    validity = Validity.INVALID if number % 6 == 5 else Validity.VALID
    return [report(leased.run, result(step_s, validity), now=now + 1)]


def make(path: Path, sweeps: int = 4) -> None:
    """Make the store as a file of its own: its log is written back. It is filled once a process."""
    path.write_bytes(_filled(sweeps))
    lock_of(path).touch()  # its writer left it


@cache
def _filled(sweeps: int) -> bytes:
    with TemporaryDirectory() as folder:
        path = Path(folder, "store.sqlite")
        with closing(SqliteStore.open(path)) as store:
            fill(store, sweeps)
        with closing(sqlite3.connect(path)) as connection:
            connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        return path.read_bytes()


def see(path: Path) -> Seen:
    """Read all there is, as every command does: one reader each, a typed error or records.

    What the log lacks is worked out once for all: it takes most of the time.
    """
    seen = Seen()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sqlite, "lost_commits", cache(lost_commits))
        for name, read in READS.items():
            try:
                with closing(SqliteStore.open_reader(path, seen.lines.append)) as reader:
                    seen.records[name] = read(reader)
            except BenchfarmError as error:
                seen.errors[name] = error
                seen.lines.append(str(error))
    return seen


def identity(record: object) -> Hashable:
    """Return something by which records are equal if and only if they say the same.

    The tags of an outcome are its sweep's, which are read for themselves. Its metrics have names
    but no order: that in which they are read is their row ids', which no checksum holds.
    """
    if isinstance(record, StoredResult):
        record = record.model_copy(update={"metrics": dict(sorted(record.metrics.items()))})
    if isinstance(record, OutcomeOrigin):
        return repr(record.model_copy(update={"tags": ()}))
    return repr(record)
