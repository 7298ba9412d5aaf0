"""Lists find outcomes by their keys: the same as all outcomes give, at a bounded cost."""

from __future__ import annotations

import shutil
import sqlite3
from collections import defaultdict
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import TypeVar

import pytest
from sqlalchemy import Select, create_engine
from sqlalchemy.dialects import sqlite

from controller.contracts.errors import StoreDamaged
from controller.contracts.outcome_filter import Chosen, OutcomeFilter, PageRequest
from controller.contracts.records import OutcomeOrigin
from controller.contracts.result import Validity
from controller.store.outcome_keys import newest_of_cells, numbers_by_keys
from controller.store.reading import SqliteReader
from controller.store.sqlite import SqliteStore
from tests.support.sample_store import identity, make
from tests.support.store_examples import sweep_record

Outcome = TypeVar("Outcome", bound=OutcomeOrigin)
EVERY = PageRequest(size=1000)
FIRST_SWEEP = sweep_record(generation=1, repeats=12).sweep_id


@pytest.fixture(scope="module")
def original(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = tmp_path_factory.mktemp("keys") / "store.sqlite"
    make(made)
    return made


@pytest.fixture
def path(original: Path, tmp_path: Path) -> Path:
    """Return a copy of the store, to be changed."""
    return Path(shutil.copy(original, tmp_path / "store.sqlite"))


@pytest.fixture(scope="module")
def reader(original: Path) -> Iterator[SqliteReader]:
    with closing(SqliteStore.open_reader(original)) as found:
        yield found


def newest(results: list[Outcome], chosen: Chosen, repeats: int) -> list[Outcome]:
    """Return what is to be found among all outcomes, which are in the order of storing."""
    places: defaultdict[tuple[str, str], list[Outcome]] = defaultdict(list)
    for one in results:
        fits = (
            (chosen.devices, one.device),
            (chosen.workloads, one.workload),
            (chosen.stacks, one.stack),
            (chosen.scenarios, one.scenario),
            (chosen.sweeps, one.sweep_id),
        )
        if one.counted and all(not values or value in values for values, value in fits):
            places[one.device, one.cell_key].append(one)
    kept = {identity(one) for of_cell in places.values() for one in of_cell[-repeats:]}
    return [one for one in results if identity(one) in kept]


@pytest.mark.parametrize("repeats", [1, 5, 1000])
@pytest.mark.parametrize(
    "chosen",
    [
        Chosen(),
        Chosen(devices=frozenset({"host-1"})),
        Chosen(workloads=frozenset({"retinanet"}), stacks=frozenset({"eager", "none"})),
        Chosen(sweeps=frozenset({FIRST_SWEEP})),
        Chosen(scenarios=frozenset({"none"})),
    ],
)
def test_the_newest_of_each_cell_are_those_among_all(
    reader: SqliteReader, chosen: Chosen, repeats: int
) -> None:
    found, more = reader.newest_of_cells(chosen, repeats, 1000)
    expected = newest(reader.results(), chosen, repeats)
    assert [identity(one) for one in found] == [identity(one) for one in expected]
    assert (found == []) == (chosen.scenarios == {"none"})
    assert not more


@pytest.mark.parametrize("repeats", [1, 2, 1000])
@pytest.mark.parametrize("device", ["phone-1", "none"])
def test_the_newest_failures_of_each_cell_are_those_among_all(
    reader: SqliteReader, device: str, repeats: int
) -> None:
    chosen = Chosen(devices=frozenset({device}))
    found, more = reader.newest_failures_of_cells(chosen, repeats, 1000)
    expected = newest(reader.failures(), chosen, repeats)
    assert [identity(one) for one in found] == [identity(one) for one in expected]
    assert (found == []) == (device == "none")
    assert not more
    assert reader.newest_failures_of_cells(Chosen(), 1000, 3) == (reader.failures()[-3:], True)


def test_of_more_than_asked_for_the_newest_are_found(reader: SqliteReader) -> None:
    every, _ = reader.newest_of_cells(Chosen(), 1000, 1000)
    found, more = reader.newest_of_cells(Chosen(), 1000, 3)
    assert found == every[-3:]
    assert more


def plan_of(path: Path, query: Select[int] | Select[int, float]) -> list[str]:
    """Return SQLite's plan for a query, a line for each step."""
    text = query.compile(dialect=sqlite.dialect(), compile_kwargs={"literal_binds": True})
    with closing(sqlite3.connect(path)) as connection:
        return [row[3] for row in connection.execute(f"EXPLAIN QUERY PLAN {text}")]


def test_neither_the_newest_nor_a_page_sorts_or_joins_all_outcomes(original: Path) -> None:
    of_cells = plan_of(original, newest_of_cells("result", Chosen(), 5).limit(100))
    index = "COVERING INDEX ix_outcome_keys_cells (counted=? AND type=?"
    assert f"SEARCH cells_on_devices USING {index})" in of_cells
    assert f"SEARCH own USING {index} AND device_id=? AND cell_key=?)" in of_cells
    assert "SEARCH newest USING INTEGER PRIMARY KEY (rowid=?)" in of_cells
    assert not [line for line in of_cells if "DISTINCT" in line]
    engine = create_engine(f"sqlite:///{original}")
    with engine.connect() as connection:
        wanted = OutcomeFilter(validity=Validity.VALID, sweep_id=FIRST_SWEEP, device="host-1")
        page = numbers_by_keys(connection, "result", wanted, None)
    engine.dispose()
    page = page.order_by(page.selected_columns[0].desc()).limit(51)
    assert plan_of(original, page) == ["SCAN outcome_keys"], "from the newest on, until it is full"


def test_a_store_without_keys_gets_them_when_it_is_opened(path: Path) -> None:
    with closing(SqliteStore.open_reader(path)) as reader:
        before = reader.result_page(OutcomeFilter(), EVERY)
    with closing(sqlite3.connect(path)) as connection, connection:
        rows = connection.execute("SELECT * FROM outcome_keys ORDER BY number").fetchall()
        connection.execute("DELETE FROM outcome_keys")
    with closing(SqliteStore.open_reader(path)) as reader:
        with pytest.raises(StoreDamaged, match="keys of its outcomes are missing"):
            reader.result_page(OutcomeFilter(), EVERY)
        with pytest.raises(StoreDamaged, match="keys of its outcomes are missing"):
            reader.newest_of_cells(Chosen(), 1, 1)
    SqliteStore.open(path).close()
    with closing(sqlite3.connect(path)) as connection:
        made = connection.execute("SELECT * FROM outcome_keys ORDER BY number").fetchall()
    assert made == rows
    assert len(rows) > 30
    with closing(SqliteStore.open_reader(path)) as reader:
        assert reader.result_page(OutcomeFilter(), EVERY) == before


@pytest.mark.parametrize("column", ["device_id", "sweep_id", "validity"])
def test_a_key_that_is_not_the_results_own_is_noticed(path: Path, column: str) -> None:
    wanted = {
        "device_id": OutcomeFilter(device="host-1"),
        "sweep_id": OutcomeFilter(sweep_id=FIRST_SWEEP),
        "validity": OutcomeFilter(validity=Validity.VALID),
    }[column]
    with closing(sqlite3.connect(path)) as connection, connection:
        same = f"SELECT {column} FROM outcome_keys WHERE number = 1"
        connection.execute(f"UPDATE outcome_keys SET {column} = ({same})")
    with closing(SqliteStore.open_reader(path)) as reader:
        assert any(not wanted.keeps(one) for one in reader.results())
        with pytest.raises(StoreDamaged, match="a key of a result"):
            reader.result_page(wanted, EVERY)
