"""Imported results on the command line: apart from the farm's, and marked."""

from __future__ import annotations

import json
from contextlib import closing
from pathlib import Path

import pytest

from controller.contracts.catalog import load_catalog
from controller.store.imported import FOLDER, ImportedResults
from controller.store.sqlite import SqliteStore
from tests.support.command_line import complaint_of, outcome_of, printed_by
from tests.support.imported_examples import imported
from tests.support.published_trees import mobile_round, put
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


def test_a_round_is_imported_once_and_then_adds_nothing(tmp_path: Path) -> None:
    tree, home = mobile_round(tmp_path), tmp_path / "home"
    assert printed_by(home, "results", "import", str(tree)) == "6 results imported\n"
    files = {p: p.read_bytes() for p in (home / FOLDER).iterdir()}
    again = printed_by(home, "results", "import", str(tree))
    assert again == "0 results imported, 6 were imported before\n"
    assert {p: p.read_bytes() for p in (home / FOLDER).iterdir()} == files
    assert len(json.loads(printed_by(home, "results", "list", "--imported", "--json"))) == 6


def test_what_is_left_out_is_said_with_its_reason(tmp_path: Path) -> None:
    tree, home = mobile_round(tmp_path), tmp_path / "home"
    (tree / "closed/Lone/systems/x\x1b[31m.json").write_text("{}")
    log = tree / "closed/Lone/results/object_detection-performance/mlperf_log_detail.txt"
    log.write_text(log.read_text()[:-9])
    said, complained, status = outcome_of(home, "results", "import", str(tree))
    assert (said, status) == ("5 results imported, 2 files left out\n", 0)
    lines = complained.splitlines()
    assert [line.startswith("left out: closed/Lone/") for line in lines] == [True, True]
    assert "\x1b" not in complained


def test_an_import_of_nothing_fails_and_leaves_nothing(tmp_path: Path) -> None:
    put(tmp_path / "tree/closed/Acme/results/x/EDSR/SingleStream/log_performance", "damaged")
    home = tmp_path / "home"
    said, complained, status = outcome_of(home, "results", "import", str(tmp_path / "tree"))
    assert (said, status) == ("", 2)
    reason, error = complained.splitlines()
    assert "not a log of LoadGen: damaged" in reason
    assert "1 file left out" in error
    assert not home.exists()


@pytest.mark.parametrize(
    ("arguments", "why"),
    [
        (("nowhere",), "No such file"),
        (("nowhere", "--round", "4"), "a round is named like v4.0"),
        (("nowhere", "--round", "v4.0\n"), "a round is named like v4.0"),
        (("nowhere", "--round", "v77.7"), "there is no such round"),
        (("/proc/self/mem",), "left out"),
        (("empty",), "no result that can be imported"),
    ],
)
def test_a_call_that_cannot_be_meant_is_one_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, arguments: tuple[str, ...], why: str
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "empty").mkdir()
    said, complained, status = outcome_of(tmp_path / "home", "results", "import", *arguments)
    assert (said, status) == ("", 2)
    assert why in complained
    assert "Traceback" not in complained


def test_one_result_does_not_become_two_rounds(tmp_path: Path) -> None:
    tree, home = mobile_round(tmp_path), tmp_path / "home"
    printed_by(home, "results", "import", str(tree))
    _, complained, status = outcome_of(home, "results", "import", str(tree), "--round", "v3.1")
    assert status == 2
    assert "imported before as MLPerf Mobile v4.0" in complained


def test_the_report_of_a_sweep_ranks_them(tmp_path: Path) -> None:
    make(tmp_path / "store.sqlite")
    with closing(SqliteStore.open_reader(tmp_path / "store.sqlite", pytest.fail)) as store:
        ours = next(r for r in store.results() if not r.virtual and r.validity == "VALID")
    metric = load_catalog().scenarios[ours.scenario].metric
    theirs = imported(workload=ours.workload).model_copy(
        update={
            "knobs": ours.knobs,
            "scenario": ours.scenario,
            "metrics": {metric: ours.metrics[metric]},
        }
    )
    ImportedResults(tmp_path).keep([theirs])
    page = tmp_path / "page.html"
    printed_by(tmp_path, "results", "report", ours.sweep_id, "-o", str(page))
    assert "rocket_9" not in page.read_text()
    printed_by(tmp_path, "results", "report", ours.sweep_id, "-o", str(page), "--imported")
    assert "Acme rocket_9" in page.read_text()


def test_an_export_that_no_submission_could_have_is_refused(home: Path, tmp_path: Path) -> None:
    for form in ("mlperf-mobile", "app"):
        said, complained, status = outcome_of(
            home, "results", "export", str(tmp_path / "out"), "--format", form
        )
        assert (said, status) == ("", 2)
        assert "is one that a submission can have" in complained.splitlines()[-1]
        assert not (tmp_path / "out").exists()
