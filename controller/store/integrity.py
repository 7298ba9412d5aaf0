"""Integrity check: reads all of a store to find damage, and saves what can be read into a new
store."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

from sqlalchemy import insert

from controller.contracts.errors import HomeUnusable, StoreDamaged
from controller.store.artefacts.checking import check_artefacts
from controller.store.artefacts.folder import folder_beside
from controller.store.connecting import make_engine, transaction
from controller.store.outcome_keys import make_keys
from controller.store.reading import SqliteReader
from controller.store.sqlite import SqliteStore

MOST_LINES = 100
"""Most lines of SQLite's own check."""


@dataclass(frozen=True, slots=True)
class Findings:
    """The number of sound records of each kind, and a line about each damaged one."""

    sound: dict[str, int]
    damage: list[str]
    artefacts: tuple[str, ...] = ()
    """A line about each artefact that is missing, damaged, or of no run."""


def check(path: Path) -> Findings:
    """Read all of a store, its artefacts too; raises NotFound, HomeUnusable, StoreUnavailable."""
    lines: list[str] = []
    reads: dict[str, Callable[[SqliteReader], int]] = {
        "agents": lambda store: len(store.fleet()[0]),
        "devices": lambda store: len(store.fleet()[1]),
        "tokens": lambda store: len(store.tokens()),
        "sweeps": lambda store: len(store.sweeps()),
        "tagged or noted sweeps": lambda store: len(store.annotations()),
        "runs": lambda store: len(store.runs()),
        "results": lambda store: len(store.results()),
        "failures": lambda store: len(store.failures()),
        "events of devices": lambda store: store.events(),
    }
    with closing(SqliteStore.open_reader(path, lambda _: None)) as reader:
        sound = {}
        for noun, read in reads.items():
            try:
                sound[noun] = read(reader)
            except StoreDamaged as error:
                sound[noun] = 0
                lines.append(f"{noun}: {error.reason}")
        kept = check_artefacts(folder_beside(path))
        sound["artifacts"] = kept.sound
        damage = [*reader.damage(), *lines, *_of_the_file(path)]
        return Findings(sound, damage, kept.lines)


def _of_the_file(path: Path) -> list[str]:
    """Return SQLite's findings about pages and indices, and rows with broken references."""
    engine = make_engine(path, "ro")
    found: list[str] = []
    try:
        with transaction(engine, path, read_only=True) as connection:
            said = connection.exec_driver_sql(f"PRAGMA integrity_check({MOST_LINES})").scalars()
            lines = [line for text in said for line in str(text).splitlines()]
            found += [f"SQLite: {ascii(line)[1:-1]}" for line in lines if line != "ok"]
            loose = connection.exec_driver_sql("PRAGMA foreign_key_check").all()
            found += [f"row {row[1]} of table {row[0]} refers to no {row[2]}" for row in loose]
    except StoreDamaged as error:
        found.append(f"SQLite: {error.reason}")
    finally:
        engine.dispose()
    return found


def salvage(path: Path, new: Path) -> Findings:
    """Copy the sound records into a new store; raises as `check`, and HomeUnusable if `new` exists.

    The order of runs and the age of results stay; the outcome of a damaged run is lost with it.
    """
    if new.exists():
        raise HomeUnusable(f"create the store {new}", "the file exists", "Name a new file.")
    with closing(SqliteStore.open_reader(path, lambda _: None)) as reader:
        rows, lost = reader.sound_rows(), reader.damage()
    SqliteStore.open(new).close()
    engine = make_engine(new, "rwc", foreign_keys=False)  # records may refer to lost devices
    try:
        with transaction(engine, new) as connection:
            for table, of_table in rows.items():
                counter = table.autoincrement_column  # renumber, so that no number is missing
                names = [c.name for c in table.columns if c is not counter]
                for row in of_table:
                    connection.execute(insert(table), {name: row[name] for name in names})
            make_keys(connection)
    finally:
        engine.dispose()
    return Findings({table.name: len(of_table) for table, of_table in rows.items()}, lost)
