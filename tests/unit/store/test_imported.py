"""Imported results lie beside the store: nothing that reads the store for anything sees them."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from controller.contracts.catalog import load_catalog
from controller.contracts.result import Measurement
from controller.contracts.units import Unit
from controller.store.imported import FOLDER, ImportedResults
from controller.store.reading import SqliteReader
from controller.store.sqlite import SqliteStore
from tests.support.imported_examples import imported
from tests.support.sample_store import READS, make

TWO = (imported(), imported(0.004, checksum="1" * 64))


def test_no_reader_of_the_store_sees_an_imported_result(tmp_path: Path) -> None:
    make(tmp_path / "store.sqlite")
    catalog = load_catalog()
    ways: dict[str, Callable[[SqliteReader], list[object]]] = {
        **READS,
        "newest": lambda store: [*store.newest_results(catalog)],
    }

    def seen() -> dict[str, list[object]]:
        store = SqliteStore.open_reader(tmp_path / "store.sqlite", pytest.fail)
        try:
            return {name: read(store) for name, read in ways.items()}
        finally:
            store.close()

    before = seen()
    # One that claims to be of a device, a sweep and a cell of the farm.
    posing = next(iter(before["results"]))
    ours = {name: getattr(posing, name) for name in ("device", "sweep_id", "cell_key", "workload")}
    impostor = imported().model_copy(update={**ours, "started_at": 4e9})
    ImportedResults(tmp_path).keep([*TWO[1:], impostor])
    assert len(ImportedResults(tmp_path).results()[0]) == 2
    assert seen() == before


def test_imported_twice_adds_nothing(tmp_path: Path) -> None:
    results = ImportedResults(tmp_path)
    first = results.keep(TWO)
    assert (first.new, first.known, first.other) == (TWO, (), ())
    files = {path: path.read_bytes() for path in (tmp_path / FOLDER).iterdir()}
    again = results.keep(TWO)
    assert (again.new, again.known, again.other) == ((), TWO, ())
    assert {path: path.read_bytes() for path in (tmp_path / FOLDER).iterdir()} == files


def test_a_file_of_an_older_release_is_of_its_round_s_and_division_s_device(tmp_path: Path) -> None:
    results, theirs = ImportedResults(tmp_path), imported()
    results.keep([theirs.model_copy(update={"device": "imported-0123456789ab"})])
    assert results.results() == ([theirs], [])
    assert results.keep([theirs]).known == (theirs,)


def test_one_result_does_not_become_that_of_two_rounds(tmp_path: Path) -> None:
    results = ImportedResults(tmp_path)
    results.keep([imported()])
    elsewhere = imported(round="v5.0")
    kept = results.keep([elsewhere])
    assert kept.new == kept.known == ()
    assert kept.other == ((elsewhere, imported()),)
    assert results.results() == ([imported()], [])


def _figure_changed(path: Path) -> None:
    path.write_text(path.read_text().replace("0.005", "0.001"))


def _round_changed(path: Path) -> None:
    path.write_text(path.read_text().replace('"v4.0"', '"v5.0"'))


def _renamed(path: Path) -> None:
    path.rename(path.with_name("imported-000000000000.json"))


def _cut(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-20])


def _huge(path: Path) -> None:
    path.write_text(path.read_text() + " " * 2**20)


def _nested(path: Path) -> None:
    path.write_text("[" * 5000)


def _not_an_object(path: Path) -> None:
    path.write_text("[1]")


def _not_a_number(path: Path) -> None:
    path.write_text(path.read_text().replace("0.005", "NaN"))


def _not_text(path: Path) -> None:
    path.write_bytes(b"\xff\xfe")


DAMAGE = [
    *(_figure_changed, _round_changed, _renamed, _cut, _huge, _nested),
    *(_not_an_object, _not_a_number, _not_text),
]


@pytest.mark.parametrize("damage", DAMAGE, ids=lambda d: d.__name__)
def test_a_damaged_file_is_named_left_out_and_mended(
    tmp_path: Path, damage: Callable[[Path], None]
) -> None:
    results = ImportedResults(tmp_path)
    results.keep(TWO)
    damage(tmp_path / FOLDER / f"{TWO[0].run_id}.json")
    found, lines = results.results()
    assert found == [TWO[1]]
    assert [line.startswith(f"imported result {tmp_path}") for line in lines] == [True]
    assert "\n" not in lines[0]
    assert results.keep(TWO).new == TWO[:1]
    assert {r.run_id for r in results.results()[0]} == {r.run_id for r in TWO}


def test_what_is_kept_is_what_was_handed_in(tmp_path: Path) -> None:
    metrics = {"latency_p90": Measurement(value=0.1 + 0.2, unit=Unit.SECONDS)}
    result = imported().model_copy(update={"metrics": metrics})
    ImportedResults(tmp_path).keep([result])
    assert ImportedResults(tmp_path).results() == ([result], [])
    (path,) = (tmp_path / FOLDER).iterdir()
    assert path.stat().st_mode & 0o077 == 0
    assert json.loads(path.read_text())["result"]["imported"]["round"] == "v4.0"
