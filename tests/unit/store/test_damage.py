"""What damage of single rows does, to readers, to the check and to what is saved of it."""

from __future__ import annotations

import random
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest
from typer.testing import CliRunner

from controller.cli.main import app
from controller.contracts.errors import HomeUnusable, UserError
from controller.platform.locks import exclusive_in_thread
from controller.store import tables
from controller.store.integrity import check, salvage
from controller.store.sqlite import SqliteStore
from controller.store.wal import lock_of
from tests.support.sample_store import identity, make, see

NEVER_LEASED = "the never leased runs of sweep demo-"

VALUES = (
    None,
    "",
    "text",
    "NaN",
    9e999,
    -1,
    2**62,
    0.5,
    b"\xff\xfe",
    "{",
    "[1]",
    '{"a": 1}',
    "\x1b[2J",
)


@pytest.fixture(scope="module")
def sound(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    path = tmp_path_factory.mktemp("sound") / "store.sqlite"
    make(path)
    return path.read_bytes()


@pytest.fixture
def path(tmp_path: Path, sound: bytes, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("BENCHFARM_HOME", str(tmp_path))
    store = tmp_path / "store.sqlite"
    store.write_bytes(sound)
    return store


def _change(path: Path, *statements: str) -> None:
    with closing(sqlite3.connect(path)) as connection, connection:
        for statement in statements:
            connection.execute(statement)


@pytest.mark.parametrize(
    ("statement", "named"),
    [
        ("UPDATE measurements SET value = 9 WHERE rowid = 5", "the result of run"),
        ("UPDATE measurements SET samples = '[' WHERE rowid = 5", "the result of run"),
        ("DELETE FROM measurements WHERE rowid = 5", "the result of run"),
        ("UPDATE outcomes SET validity = 'VALID' WHERE validity = 'INVALID'", "the result of run"),
        (
            "DELETE FROM outcomes WHERE number = 3",
            "1 of the results and failures: missing, of 44 that were stored",
        ),
        ("UPDATE attempts SET virtual = NOT virtual WHERE rowid = 3", "the result of run"),
        ("UPDATE runs SET state = 'done' WHERE state = 'failed'", "run "),
        ("DELETE FROM runs WHERE rowid = 4", "1 of the 12 runs of sweep"),
        ("UPDATE unleased SET spans = replace(spans, 'queued', 'cancelled')", NEVER_LEASED),
        ("UPDATE unleased SET spans = '[[12,\"queued\",null,null]]'", NEVER_LEASED),
        ("UPDATE unleased SET spans = '[[1e9,\"queued\",null,null]]'", NEVER_LEASED),
        ("UPDATE unleased SET cells = zeroblob(10000000)", NEVER_LEASED),
        ("UPDATE unleased SET cells = 99999999999", NEVER_LEASED),
        ("UPDATE unleased SET cells = 'text' WHERE rowid = 2", NEVER_LEASED),
        ("UPDATE unleased SET created_at = 7 WHERE rowid = 2", NEVER_LEASED),
        ("UPDATE unleased SET sweep_id = 'demo' WHERE rowid = 2", "the never leased runs of"),
        ("DELETE FROM unleased WHERE rowid = 2", "1 of the 12 runs of sweep"),
        ("UPDATE sweeps SET document = '{' WHERE number = 2", "sweep demo-"),
        ("UPDATE devices SET virtual = 0 WHERE device_id = 'phone-1'", "device phone-1"),
        ("UPDATE agents SET host = x'ff'", "agent host-1"),
        ("UPDATE tokens SET revoked_at = NULL", "the token of bob"),
        ("UPDATE device_events SET why = 'other'", "an event of device phone-1"),
    ],
)
def test_what_is_changed_is_named_and_left_out(path: Path, statement: str, named: str) -> None:
    before = see(path)
    _change(path, statement)
    found = check(path)
    assert any(line.startswith(named) for line in found.damage), found.damage
    after = see(path)
    assert not after.errors
    for name, records in after.records.items():
        assert {*map(identity, records)} <= {*map(identity, before.records[name])}, name


def test_checksums_that_changed_places_fit_neither(path: Path) -> None:
    _change(
        path,
        "CREATE TEMP TABLE two AS SELECT number, checksum FROM outcomes WHERE number IN (1, 2)",
        "UPDATE outcomes SET checksum = (SELECT checksum FROM two AS t"
        " WHERE t.number = 3 - outcomes.number) WHERE number IN (1, 2)",
    )
    assert len(check(path).damage) == 2


def test_damaged_indices_hide_nothing(path: Path) -> None:
    before = see(path)
    with closing(sqlite3.connect(path)) as connection:
        query = "SELECT rootpage FROM sqlite_master WHERE type = 'index' AND rootpage > 0"
        roots = [root for (root,) in connection.execute(query)]
    with path.open("r+b") as file:
        for root in roots:
            file.seek((root - 1) * 4096 + 3)
            file.write(bytes(2))  # it has no cells
    after = see(path)
    assert after.records == before.records
    assert any("SQLite: " in line for line in check(path).damage)


def test_what_is_sound_is_saved(path: Path, tmp_path: Path) -> None:
    new = tmp_path / "new.sqlite"
    before = see(path)
    saved = salvage(path, new)
    assert saved.damage == []
    assert see(new).records == before.records
    assert check(new).damage == []
    with pytest.raises(HomeUnusable, match="the file exists"):
        salvage(path, new)
    SqliteStore.open(new).close()


def test_nothing_is_salvaged_from_a_store_that_a_farm_writes_to(path: Path, tmp_path: Path) -> None:
    new = tmp_path / "new.sqlite"
    words = ["store", "salvage", str(new)]
    with exclusive_in_thread(lock_of(path)):
        refused = CliRunner().invoke(app, words)
    assert isinstance(refused.exception, UserError)
    assert refused.exception.remedy == "Stop the farm first, by `benchfarm down`."
    assert not new.exists()
    saved = CliRunner().invoke(app, words)
    assert (saved.exit_code, new.exists()) == (0, True)
    assert "benchfarm down" not in saved.output, "the copy has all that a stopped farm has"


def test_a_lock_that_cannot_be_asked_is_said(path: Path, tmp_path: Path) -> None:
    lock_of(path).unlink(missing_ok=True)
    lock_of(path).symlink_to(tmp_path / "elsewhere")
    saved = CliRunner().invoke(app, ["store", "salvage", str(tmp_path / "new.sqlite")])
    assert saved.exit_code == 0
    assert "cannot tell whether a farm writes to" in saved.output


def test_a_new_store_keeps_what_a_damaged_one_has_left(path: Path, tmp_path: Path) -> None:
    _change(path, "UPDATE outcomes SET document = '{' WHERE number IN (1, 7)")
    before, new = see(path), tmp_path / "new.sqlite"
    assert len(salvage(path, new).damage) == 2
    after = see(new)
    assert after.records == before.records
    assert any("missing" in line for line in after.lines), "nothing is lost in silence"


@pytest.mark.parametrize("seed", range(8))
def test_every_command_names_damage_in_lines_and_goes_on(path: Path, seed: int) -> None:
    chance = random.Random(seed)
    run_id = SqliteStore.open_reader(path).runs()[0].run_id
    with closing(sqlite3.connect(path)) as connection, connection:
        for _ in range(4):
            table = chance.choice(tables.metadata.sorted_tables)
            column = chance.choice([column.name for column in table.columns])
            change = f"UPDATE OR IGNORE {table.name} SET [{column}] = ? WHERE rowid = ?"
            row_id = chance.randint(1, 12)
            try:
                connection.execute(change, (chance.choice(VALUES), row_id))
            except sqlite3.IntegrityError:
                continue  # a row id takes numbers only, most columns something
    for command in (
        "results list",
        "results list --failures --json",
        f"results show {run_id}",
        f"results export {path.parent}/out.json",
        "sweep status",
        "device list",
        "device history phone-1",
        "agent list",
        "store check",
    ):
        done = CliRunner().invoke(app, command.split(), standalone_mode=False)
        error = done.exception
        expected = (
            error is None
            or isinstance(error, SystemExit)
            or type(error).__module__ == ("controller.contracts.errors")
        )
        assert expected, f"{command}: {error!r}"
        assert "Traceback" not in done.output
