"""A table of results that is read from columns is the one that contracts make, damaged or not."""

from __future__ import annotations

import json
import random
import sqlite3
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from itertools import chain
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from controller.contracts.base import Scalar, canonical_json
from controller.contracts.catalog import load_catalog
from controller.contracts.errors import BenchfarmError
from controller.contracts.facts import declared_facts
from controller.contracts.flat_result import FlatResult
from controller.contracts.outcome_filter import CellFilter, OutcomeFilter
from controller.contracts.pair import Pair
from controller.contracts.profile import ProfileSummary
from controller.contracts.result import Environment, Measurement, Result, Validity
from controller.contracts.sweep import Cell, PairedCandidate
from controller.contracts.units import Unit
from controller.reports.arrow import table_of
from controller.scheduling.binding import runs_of
from controller.store import flat_reading, tables
from controller.store.connecting import make_engine
from controller.store.flattening import MEASUREMENTS, OUTCOMES
from controller.store.paging import measured_by_key
from controller.store.reading import SqliteReader
from controller.store.sealing import seal_of_outcome
from controller.store.snapshot import Measured, Snapshot
from controller.store.sqlite import SqliteStore
from tests.support.contract_tables import contract_table, stored_in_order
from tests.support.sample_store import HELD, fill
from tests.support.store_examples import CPU, grant, lose, report, result, runs_for, sweep_record
from tests.unit.store.test_damage import VALUES

ALL = OutcomeFilter()
WORDS = ("", "0", 'x"\\\n', "törö", "\x00", "=1+1 <b>", "null", "a, b: c", "{", "[1]")
NUMBERS = (0, 1, -1, 2**63, 10**30, 0.1, 1e-7, 1e22, 123456789.123, -0.0, 5e-324, 1.0, True, False)
SCENARIOS = sorted(load_catalog().scenarios)
UNUSUAL = 2
"""Results of the store that contracts read: a comparison, and a profiled one."""


def environment_of(numbers: random.Random) -> Environment:
    """Return a value, or none, of each fact that is declared, and of one that is not."""
    choices: tuple[Callable[[], Any], ...] = (
        lambda: None,
        lambda: numbers.choice(WORDS),
        lambda: numbers.choice(NUMBERS),
        lambda: tuple(numbers.choices((*WORDS, *NUMBERS), k=numbers.randrange(3))),
        lambda: numbers.lognormvariate(0, 9),
    )
    names = [fact.name for fact in declared_facts() if numbers.random() < 0.9]
    return {name: numbers.choice(choices)() for name in (*names, numbers.choice(WORDS))}


def varied(numbers: random.Random) -> Result:
    """Return a result with a metric of each unit, or with few; with samples, or without."""
    units = [unit for unit in Unit if numbers.random() < numbers.choice((0.1, 1))]
    samples = tuple(numbers.choices((0.0, 1.5, 1e300, -2e-9, 3.0), k=numbers.randrange(4)))
    return Result(
        validity=numbers.choice(list(Validity)),
        reasons=tuple(numbers.choices(WORDS, k=numbers.randrange(3))),
        metrics={
            f"{numbers.choice(WORDS)}{unit.value}": Measurement(
                value=numbers.lognormvariate(0, 3), unit=unit, samples=samples
            )
            for unit in units
        },
        environment=environment_of(numbers),
        artefacts={word: word for word in numbers.choices(WORDS, k=2)},
        checksums={"log": "ab" * 32} if numbers.random() < 0.5 else {},
    )


def cells() -> Iterator[Cell]:
    """Yield a cell of each scenario, with all that a knob may be."""
    for scenario in SCENARIOS:
        knobs: dict[str, Scalar] = {
            word or "none": number for word, number in zip(WORDS, NUMBERS, strict=False)
        }
        knobs |= {"word": WORDS[3], "scenario": scenario}
        yield Cell(
            workload="w ü", stack="torch", scenario=scenario, knobs=knobs, selector="phone-1"
        )


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A store with results of each scenario, and late, paired, profiled and INVALID ones."""
    path, numbers = tmp_path_factory.mktemp("flat") / "store.sqlite", random.Random(1)
    with closing(SqliteStore.open(path)) as store:
        fill(store, sweeps=1, repeats=7)
        record = sweep_record("varied", repeats=1)
        for run in store.add_sweep(
            record, runs_of(record.sweep, record.sweep_id, [*cells()], 1000.5)
        ):
            leased = grant(run, numbers.choice((CPU, HELD)), 1e9 + 1e6 * numbers.random())
            store.save_runs([leased])
            now = 1e9 + 1e7 * numbers.random()
            store.save_runs([report(leased.run, varied(numbers), now=now)])
        add_unusual(store)
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    return path


def add_unusual(store: SqliteStore) -> None:
    """Store a paired comparison, a profiled result, and one that came after its lease's end."""
    record = sweep_record("unusual", repeats=2)
    cell = runs_for(record)[0].cell
    paired = PairedCandidate(stack="ipex", knobs={"fused": True}, width=0.02)
    both = [cell, cell.model_copy(update={"versus": paired})]
    runs = store.add_sweep(record, runs_of(record.sweep, record.sweep_id, both, 1000.5))
    profile = ProfileSummary(steps=3, step_s=1.5, efficiency=0.9, headroom_s=0.25, top=())
    pairs = (Pair(a=(0.25,), b=(0.5,), a_first=True),)
    plain, late = [run for run in runs if run.cell.versus is None]
    versus = next(run for run in runs if run.cell.versus)
    for run, outcome in (
        (plain, result().model_copy(update={"profile": profile})),
        (versus, result().model_copy(update={"pairs": pairs})),
    ):
        store.save_runs([report(grant(run).run, outcome)])
    lost = lose(grant(late).run)
    store.save_runs([lost])
    again = grant(lost.run, CPU, 2040.0)
    store.save_runs([again])
    belated = report(again.run, result(), 1, 2041.0)
    store.save_runs([belated])
    store.save_runs([report(belated.run, result(0.5), 2, 2042.0)])


def flat_table(batches: Iterator[Sequence[FlatResult]]) -> pa.Table:
    return table_of([*chain(*batches)])


@pytest.fixture
def contracts_read(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The numbers of the results that are read as contracts."""
    noted: list[int] = []

    def noting(kind: str, *arguments: Any) -> list[Measured]:  # noqa: ANN401
        noted.extend(arguments[-1])
        return measured_by_key(kind, *arguments)

    monkeypatch.setattr(flat_reading, "measured_by_key", noting)
    return noted


FILTERS = (
    ALL,
    OutcomeFilter(validity=Validity.INVALID),
    OutcomeFilter(device="phone-1", tags=frozenset({"paper"})),
    OutcomeFilter(CellFilter(scenario=SCENARIOS[0])),
    OutcomeFilter(since=2200.0, virtual=False),
    OutcomeFilter(device="none"),
)


@pytest.mark.parametrize("wanted", FILTERS, ids=range(len(FILTERS)))
@pytest.mark.parametrize("samples", [True, False])
def test_the_table_is_the_one_that_contracts_make(
    path: Path, wanted: OutcomeFilter, samples: bool, contracts_read: list[int]
) -> None:
    with closing(SqliteStore.open_reader(path, pytest.fail)) as reader:
        expected = contract_table(stored_in_order(reader, wanted), samples=samples)
        found = [*chain(*reader.flat_batches(wanted))]
        assert table_of(found, samples=samples).equals(expected)
        if wanted is ALL:
            assert len(contracts_read) == UNUSUAL, "all others are read from their columns"
            assert set(expected["scenario"].to_pylist()) >= {*SCENARIOS}
            assert set(expected["counted"].to_pylist()) == {True, False}


@pytest.mark.parametrize("query", [OUTCOMES, MEASUREMENTS], ids=["outcomes", "measurements"])
def test_a_batch_costs_the_same_in_every_store(path: Path, query: str) -> None:
    """Each row is found by its key: an index of all results would be read for each batch."""
    with closing(sqlite3.connect(path)) as connection:
        plan = [step for *_, step in connection.execute(f"EXPLAIN QUERY PLAN {query}", ("[1]",))]
    assert plan[0] == "SEARCH o USING INTEGER PRIMARY KEY (rowid=?)"
    by_key = [step for step in plan[1:] if step.startswith("SEARCH") and "autoindex" in step]
    assert len(by_key) == query.count("CROSS JOIN")


# --- damage --------------------------------------------------------------------------------------

READ_TABLES = (
    *(tables.outcomes, tables.measurements, tables.runs, tables.attempts, tables.cells),
    *(tables.devices, tables.sweep_annotations),
)


def seen(path: Path, read: Callable[[SqliteReader], pa.Table]) -> tuple[pa.Table, list[str], str]:
    """Return a table, what was told of damage, and the error if it could not be read."""
    lines: list[str] = []
    with closing(SqliteStore.open_reader(path, lines.append)) as reader:
        try:
            return read(reader), sorted(lines), ""
        except BenchfarmError as error:
            return None, sorted(lines), str(error)


def require_same(path: Path) -> tuple[pa.Table, list[str], str]:
    """Require that columns and contracts say the same of a store; return it."""
    by_page = seen(path, lambda reader: contract_table(stored_in_order(reader, ALL)))
    assert seen(path, lambda reader: flat_table(reader.flat_batches(ALL))) == by_page
    return by_page


@pytest.fixture
def copied(path: Path, tmp_path: Path) -> Path:
    copy = tmp_path / "store.sqlite"
    copy.write_bytes(path.read_bytes())
    return copy


@pytest.mark.parametrize("seed", range(6))
def test_damage_is_what_it_is_to_contracts(copied: Path, seed: int) -> None:
    chance = random.Random(seed)
    with closing(sqlite3.connect(copied)) as connection, connection:
        for _ in range(4):
            table = chance.choice(READ_TABLES)
            column = chance.choice([column.name for column in table.columns])
            row_ids = [row for (row,) in connection.execute(f"SELECT rowid FROM {table.name}")]
            change = f"UPDATE OR IGNORE {table.name} SET [{column}] = ? WHERE rowid = ?"
            try:
                connection.execute(change, (chance.choice(VALUES), chance.choice(row_ids)))
            except sqlite3.IntegrityError:
                continue  # a key of numbers
    require_same(copied)


@pytest.mark.parametrize(
    "statement",
    [
        "DELETE FROM measurements WHERE rowid = 5",
        "DELETE FROM attempts WHERE rowid = 2",
        "DELETE FROM runs WHERE rowid = 1",
        "DELETE FROM cells",
        "DELETE FROM outcomes WHERE number = 3",
        "UPDATE outcomes SET document = CAST(x'ff' AS TEXT) WHERE number = 2",
        "UPDATE measurements SET samples = '[0.25, 0.35]' WHERE samples != '[]'",
        "UPDATE attempts SET device_kind = 'cpu' || x'ff'",
        "UPDATE outcomes SET validity = 'VALID' WHERE validity = 'INVALID'",
    ],
)
def test_what_is_lost_or_changed_is_told_as_before(copied: Path, statement: str) -> None:
    with closing(sqlite3.connect(copied)) as connection, connection:
        assert connection.execute(statement).rowcount
    _, lines, error = require_same(copied)
    assert lines or error or "DELETE FROM outcomes" in statement


def test_damaged_indices_are_no_short_table(copied: Path) -> None:
    with closing(sqlite3.connect(copied)) as connection:
        query = "SELECT rootpage FROM sqlite_master WHERE type = 'index' AND rootpage > 0"
        roots = [root for (root,) in connection.execute(query)]
    with copied.open("r+b") as file:
        for root in roots:
            file.seek((root - 1) * 4096 + 3)
            file.write(bytes(2))  # it has no cells
    require_same(copied)


DOCUMENTS: tuple[Callable[[dict[str, Any]], object], ...] = (
    lambda said: said.pop("checksums"),
    lambda said: said.update(colour="red"),
    lambda said: said.update(reasons=[1]),
    lambda said: said.update(reasons="text"),
    lambda said: said.update(pairs=None),
    lambda said: said.update(artefacts={"log": 1}),
    lambda said: said["environment"].update(nested={"a": 1}),
    lambda said: said["environment"].update(nested=[[1]]),
    lambda said: said["environment"].update(nothing=[None]),
    lambda said: said["environment"].update(load=float("nan")),
    lambda said: said["environment"].update(load=[float("inf")]),
    lambda said: said["environment"].update(text="\ud800"),
    lambda said: said["environment"].update(text="\U0001f600 NaN"),
    lambda said: said.update(environment=None),
)
MEASURED = (("unit", "parsec"), ("samples", [1, 2]), ("samples", [float("nan")]), ("samples", [""]))


@pytest.mark.parametrize("change", DOCUMENTS, ids=range(len(DOCUMENTS)))
def test_a_document_of_another_release_is_as_understood_as_before(
    copied: Path, change: Callable[[dict[str, Any]], object]
) -> None:
    def altered(row: dict[str, Any], _: list[dict[str, Any]]) -> None:
        change(row["document"])

    reseal(copied, altered)
    require_same(copied)


@pytest.mark.parametrize(("column", "value"), MEASURED, ids=repr)
def test_a_metric_of_another_release_is_as_understood_as_before(
    copied: Path, column: str, value: object
) -> None:
    def altered(_: dict[str, Any], measured: list[dict[str, Any]]) -> None:
        measured[0][column] = value

    reseal(copied, altered)
    require_same(copied)


def reseal(path: Path, alter: Callable[[dict[str, Any], list[dict[str, Any]]], object]) -> None:
    """Change the store's first result, with a checksum that fits."""
    engine = make_engine(path, "ro")
    with engine.connect() as connection:
        found, measured = Snapshot(connection, lambda *_: None).outcomes("result")[0]
    engine.dispose()
    row, rows = json.loads(json.dumps([found, measured]))
    alter(row, rows)
    said = canonical_json(row["document"]), seal_of_outcome(row, row, rows), row["number"]
    with closing(sqlite3.connect(path)) as driver, driver:
        driver.execute("UPDATE outcomes SET document = ?, checksum = ? WHERE number = ?", said)
        for one in rows:
            driver.execute(
                "UPDATE measurements SET unit = ?, samples = ? WHERE rowid = ?",
                (one["unit"], canonical_json(one["samples"]), one["row_id"]),
            )
