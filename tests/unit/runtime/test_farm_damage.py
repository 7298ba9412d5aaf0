"""A controller whose store is damaged starts, and runs what is whole."""

from __future__ import annotations

import logging
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from controller.contracts.errors import AgentRevoked, StoreConflict, StoreDamaged, UserError
from controller.contracts.records import SweepRecord
from controller.contracts.run import OutcomeRecord, RunChange, RunState
from controller.store import reading
from controller.store.rows import Row, sweep_of
from tests.support import builders, sqlite_damage
from tests.support.farm import FarmBox

DAMAGES = (
    "UPDATE agents SET host = x'ff'",
    "UPDATE devices SET facts = '{'",
    "DELETE FROM agents",
    "DELETE FROM devices",
    "UPDATE sweeps SET document = '{' WHERE number = 1",
    "UPDATE runs SET state = 'text' WHERE state = 'leased'",
    "UPDATE attempts SET leased_at = 'text'",
    "UPDATE cells SET knobs = '{'",
    "UPDATE unleased SET cells = 'text'",
    "UPDATE unleased SET spans = '{'",
    "DELETE FROM unleased",
    "UPDATE tokens SET digest = 1",
)


@pytest.mark.parametrize("statement", DAMAGES)
def test_a_farm_with_a_damaged_store_starts_and_runs_a_new_sweep(
    tmp_path: Path, statement: str
) -> None:
    path = tmp_path / "store.sqlite"
    box = FarmBox(path)
    box.farm.register(builders.registration())
    box.submit(builders.sweep(repeats=2))
    with closing(sqlite3.connect(path)) as connection, connection:
        connection.execute(statement)
    box.restart()
    box.wait(1.0)
    if statement.startswith("UPDATE agents"):
        box.farm.admit("host-1")
    box.farm.register(builders.registration())
    box.wait(100.0)
    box.farm.register(builders.registration())
    box.submit(builders.sweep(name="after", repeats=1))
    assert any(run.state is RunState.LEASED for run in box.store.runs())
    assert box.ask().run
    box.close()


@pytest.fixture
def box(tmp_path: Path) -> Iterator[FarmBox]:
    box = FarmBox(tmp_path / "store.sqlite")
    yield box
    box.close()


def _change(path: Path, statement: str) -> None:
    with closing(sqlite3.connect(path)) as connection, connection:
        connection.execute(statement)


LOST_AGENTS = (
    "UPDATE agents SET host = x'ff' WHERE agent_id = 'host-2'",
    "UPDATE agents SET revoked = NULL WHERE agent_id = 'host-2'",
    "UPDATE agents SET agent_id = 'host-9' WHERE agent_id = 'host-2'",
    "UPDATE agents SET agent_id = 7 WHERE agent_id = 'host-2'",
    "DELETE FROM agents WHERE agent_id = 'host-2'",
)


@pytest.mark.parametrize("statement", LOST_AGENTS)
def test_a_revoked_agent_whose_record_is_damaged_stays_shut_out(
    box: FarmBox, tmp_path: Path, statement: str
) -> None:
    revoked = builders.registration(builders.agent("host-2"), builders.cpu("cpu-2"))
    sound = builders.registration(builders.agent("host-3"), builders.cpu("cpu-3"))
    for one in (revoked, sound):
        box.farm.register(one)
    box.farm.revoke("host-2", "ann", "lent")
    _change(tmp_path / "store.sqlite", statement)
    box.restart()
    with pytest.raises(AgentRevoked, match="benchfarm agent admit host-2"):
        box.farm.register(revoked)
    assert not box.farm.register(sound).refused
    box.farm.admit("host-2")
    box.farm.register(revoked)


def test_a_sound_store_lets_newcomers_in(box: FarmBox) -> None:
    box.farm.register(builders.registration())
    box.farm.register(builders.registration())
    box.restart()
    newcomer = builders.registration(builders.agent("host-2"), builders.cpu("cpu-2"))
    assert not box.farm.register(newcomer).refused


PAGE_TYPE = 1
"""Bytes at the beginning of a page, without which SQLite reads nothing of it."""


def _lease_once(box: FarmBox, path: Path) -> list[str]:
    """Have sixty runs wait that were leased before, and so have rows; return their ids."""
    each = [builders.cpu(f"old-{n}", cores=frozenset({n})) for n in range(60)]
    box.farm.register(builders.registration(builders.agent("old"), *each))
    box.submit(builders.sweep(repeats=60))
    box.wait(100.0)
    with closing(sqlite3.connect(path)) as connection:
        assert connection.execute("SELECT count(*) FROM runs").fetchall() == [(60,)]
    box.farm.register(builders.registration())
    return [run.run_id for run in box.store.runs()]


def _strike(box: FarmBox, path: Path, run_id: str) -> set[str]:
    """Damage the page that a run is on, under the open store; return which runs are on it."""
    _change(path, "PRAGMA wal_checkpoint(TRUNCATE)")
    pages = _pages_of(path, "runs")
    with closing(sqlite3.connect(path)) as connection:
        ids = dict(connection.execute("SELECT rowid, run_id FROM runs").fetchall())
    (page,) = (pages[row_id] for row_id, found in ids.items() if found == run_id)
    _spoil(path, page)
    return {found for row_id, found in ids.items() if pages[row_id] == page}


def _pages_of(path: Path, table: str) -> dict[int, int]:
    """Return the page that each row of a table is on."""
    rows = [row for row in sqlite_damage.rows_of(path) if row.table == table]
    return {row.row_id: row.needs[-1][0] // sqlite_damage.PAGE for row in rows}


def _spoil(path: Path, page: int) -> None:
    with path.open("r+b") as file:
        file.seek(page * sqlite_damage.PAGE)
        file.write(bytes(PAGE_TYPE))
    # A commit of another connection, so that none goes on with the page it remembers.
    _change(path, "UPDATE alembic_version SET version_num = version_num")


def _run_all(box: FarmBox) -> set[str]:
    """Run what there is to run; return the runs whose outcome the controller has."""
    done: set[str] = set()
    while (jobs := box.ask().run) or box.farm.next_tick_in() == 0.0:
        if not jobs:
            box.farm.tick()
        for job in jobs:
            try:
                box.report(job.ref, builders.result())
                done.add(job.ref.run_id)
            except StoreDamaged:
                continue
    return done


@pytest.mark.parametrize("struck", [0, 20])
def test_a_page_that_is_damaged_while_the_farm_runs_holds_up_its_own_runs_only(
    box: FarmBox, tmp_path: Path, struck: int, caplog: pytest.LogCaptureFixture
) -> None:
    runs = _lease_once(box, tmp_path / "store.sqlite")
    doomed = _strike(box, tmp_path / "store.sqlite", runs[struck])
    assert 0 < len(doomed) < len(runs)
    with caplog.at_level(logging.ERROR):
        done = _run_all(box)
    assert done == {*runs} - doomed
    for run_id in doomed:
        assert caplog.text.count(f"run {run_id} is set aside") == 1, "it is named, once"
    assert "malformed" in caplog.text
    box.submit(builders.sweep(name="after", repeats=2))
    assert len(_run_all(box)) == 2, "no device is taken by what is set aside"


def test_what_cannot_be_cancelled_is_told(box: FarmBox, tmp_path: Path) -> None:
    runs = _lease_once(box, tmp_path / "store.sqlite")
    (sweep,) = box.store.sweeps()
    doomed = _strike(box, tmp_path / "store.sqlite", runs[30])
    with pytest.raises(UserError, match=f"damaged where {len(doomed)} of its runs are kept"):
        box.cancel(sweep.sweep_id)
    states = {run.run_id: run.state for run in box.store.runs()}
    assert states == dict.fromkeys({*runs} - doomed, RunState.CANCELLED)


def test_a_damaged_page_of_what_was_never_leased_holds_up_no_run(
    box: FarmBox, tmp_path: Path
) -> None:
    path = tmp_path / "store.sqlite"
    box.farm.register(builders.registration())
    box.submit(builders.sweep(repeats=20))
    runs = {run.run_id for run in box.store.runs()}
    _change(path, "PRAGMA wal_checkpoint(TRUNCATE)")
    (page,) = {*_pages_of(path, "unleased").values()}
    _spoil(path, page)
    with pytest.raises(StoreDamaged, match="benchfarm store check"):
        box.submit(builders.sweep(name="after"))
    assert _run_all(box) == runs
    assert {run.run_id for run in box.store.runs()} == runs, "each has a sound row"


def test_an_outcome_that_contradicts_a_stored_one_is_refused_and_holds_up_no_other_run(
    box: FarmBox, caplog: pytest.LogCaptureFixture
) -> None:
    box.farm.register(builders.registration())
    box.submit(builders.sweep(repeats=2))
    (job,) = box.ask().run
    stored = OutcomeRecord(
        run_id=job.ref.run_id,
        attempt=1,
        outcome=builders.result(0.125),
        counted=True,
        started_at=1000.0,
        recorded_at=1000.0,
    )
    box.store.save_runs([RunChange(box.run(job.ref.run_id), stored)])
    with pytest.raises(StoreConflict, match="attempt 1 already has another outcome"):
        box.report(job.ref, builders.result(0.5))
    assert f"run {job.ref.run_id} is set aside" in caplog.text
    (following,) = box.ask().run
    assert following.ref.run_id != job.ref.run_id
    assert [r.metrics["step_time"].value for r in box.store.results()] == [0.125]


def test_runs_of_a_sweep_that_this_release_does_not_understand_are_left_out(
    box: FarmBox, monkeypatch: pytest.MonkeyPatch
) -> None:
    box.farm.register(builders.registration())
    for name in ("known", "unknown"):
        box.submit(builders.sweep(name=name))

    def understood(row: Row) -> SweepRecord:
        if row["name"] == "unknown":
            raise ValueError("a word of a later release")
        return sweep_of(row)

    monkeypatch.setattr(reading, "sweep_of", understood)
    box.restart()
    box.farm.register(builders.registration())
    (job,) = box.ask().run
    box.report(job.ref, builders.result())
    assert box.ask().run == ()
