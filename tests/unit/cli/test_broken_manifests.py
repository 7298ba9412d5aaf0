"""A broken manifest of a user's on the command line: what needs it says why, all else works."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path

import pytest
import yaml

from controller.runtime.farm_facts import stored_facts
from controller.runtime.home import Home
from controller.store.sqlite import SqliteStore
from tests.support.command_line import complaint_of, outcome_of, printed_by

SWEEP = {"name": "s", "workload": "resnet18", "stack": "torch", "scenario": "training"}
SEEN = "manifest {} is left out: not YAML: line 1, column 8: "
REMEDY = "Correct the file, or remove it."


@pytest.fixture
def said(tmp_path: Path) -> str:
    """Break a task of the home's user; return how the line about it begins."""
    file = tmp_path / "models" / "tasks" / "mine.yaml"
    file.parent.mkdir(parents=True)
    file.write_text("name: [")
    return SEEN.format(file)


@pytest.fixture
def sweep(tmp_path: Path) -> str:
    file = tmp_path / "sweep.yaml"
    file.write_text(yaml.safe_dump(SWEEP))
    return str(file)


@pytest.mark.parametrize(
    "call",
    [
        ("workload", "list"),
        ("workload", "show", "resnet18"),
        ("stacks", "list"),
        ("scenario", "list"),
        ("models", "list"),
        ("sweep", "validate", "SWEEP"),
    ],
)
def test_lists_and_other_sweeps_go_on_and_name_it_once(
    call: tuple[str, ...], said: str, sweep: str, tmp_path: Path
) -> None:
    words = (sweep if word == "SWEEP" else word for word in call)
    shown, complained, status = outcome_of(tmp_path, *words)
    assert status == 0
    assert shown
    assert complained.startswith(f"benchfarm: {said}")
    assert complained.endswith(f". {REMEDY}\n")
    assert complained.count("\n") == 1


@pytest.mark.parametrize("call", [("results", "list"), ("sweep", "status"), ("device", "list")])
def test_what_needs_no_manifest_of_theirs_says_nothing(
    call: tuple[str, ...], said: str, tmp_path: Path
) -> None:
    with closing(SqliteStore.open(tmp_path / "store.sqlite")):
        pass
    printed_by(tmp_path, *call)


def test_what_needs_it_says_so_in_one_line(said: str, tmp_path: Path) -> None:
    line = complaint_of(tmp_path, "compare", "torch", "litert", "--workload", "mine")
    assert line.startswith(f"benchfarm: cannot use mine: {said}")
    assert line.endswith(f". {REMEDY}\n")


def test_status_knows_it(said: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("BENCHFARM_HOME", str(tmp_path))
    with closing(SqliteStore.open(tmp_path / "store.sqlite")) as store:
        facts = stored_facts(Home(tmp_path), store)
    (one,) = facts.left_out
    assert one.said.startswith(said)
    assert facts.catalog_fault is None
