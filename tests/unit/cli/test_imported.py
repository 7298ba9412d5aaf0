"""Imported results on the command line: apart from the farm's, and marked."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from controller.store.imported import FOLDER, ImportedResults
from tests.support.command_line import complaint_of, outcome_of, printed_by
from tests.support.imported_examples import imported
from tests.support.sample_store import make

TWO = [imported(), imported(0.004, checksum="1" * 64, system="rocket_8", round="v3.1")]
FILTERS = [
    ((), 2),
    (("--device", "rocket_9"), 1),
    (("--device", TWO[0].device), 1),
    (("--device", "phone-1"), 0),
    (("--sweep", TWO[1].sweep_id), 1),
    (("--workload", "w1", "--stack", "acmenn"), 2),
    (("--scenario", "offline"), 0),
    (("--validity", "invalid"), 0),
    (("--last", "1"), 1),
]


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    home = tmp_path_factory.mktemp("imported")
    make(home / "store.sqlite")
    ImportedResults(home).keep(TWO)
    return home


@pytest.mark.parametrize(("options", "expected"), FILTERS)
def test_they_are_listed_by_themselves(home: Path, options: tuple[str, ...], expected: int) -> None:
    listed = json.loads(printed_by(home, "results", "list", "--imported", *options, "--json"))
    assert len(listed) == expected
    assert all(one["imported"]["submitter"] == "Acme" for one in listed)
    said = printed_by(home, "results", "list", "--imported", *options)
    assert ("measured and published by others" in said) == bool(expected)


def test_no_other_list_or_export_has_one(home: Path, tmp_path: Path) -> None:
    calls = (
        ("results", "list", "--json"),
        ("results", "list", "--csv"),
        ("device", "list", "--json"),
        ("sweep", "status", "--json"),
        ("results", "export", str(tmp_path / "all.json")),
    )
    said = "".join(printed_by(home, *call) for call in calls)
    assert "imported-" not in said + (tmp_path / "all.json").read_text()
    assert "rocket" not in said


def test_one_is_shown_by_the_beginning_of_its_id(home: Path) -> None:
    said = printed_by(home, "results", "show", TWO[1].run_id[:-2])
    assert "imported.round" in said
    assert "v3.1" in said
    assert "imported-" in complaint_of(home, "results", "show", "imported-")


def test_a_damaged_file_is_said_and_the_rest_listed(tmp_path: Path) -> None:
    ImportedResults(tmp_path).keep(TWO)
    (tmp_path / FOLDER / f"{TWO[0].run_id}.json").write_text("{}")
    said, complained, status = outcome_of(tmp_path, "results", "list", "--imported", "--json")
    assert [one["run_id"] for one in json.loads(said)] == [TWO[1].run_id]
    assert (complained.count("\n"), status) == (1, 0)
    assert "checksum" in complained


def test_failures_are_never_imported(home: Path) -> None:
    said = complaint_of(home, "results", "list", "--imported", "--failures")
    assert "none are imported" in said


def test_where_one_was_read_from_is_told(home: Path) -> None:
    said = printed_by(home, "results", "show", TWO[1].run_id, "--provenance")
    origin = TWO[1].imported
    assert f"  imported    {origin.title}" in said
    assert f"  read from   {origin.source}, sha256 {'1' * 64}\n" in said
    (found,) = json.loads(
        printed_by(home, "results", "show", TWO[1].run_id, "--provenance", "--json")
    )
    assert (found["sweep"], found["imported"]["submitter"]) == (None, "Acme")
