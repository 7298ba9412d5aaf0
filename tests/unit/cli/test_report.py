"""`benchfarm results report` on a store that no farm is up for."""

from __future__ import annotations

import csv
import json
from pathlib import Path

import pytest

from controller.contracts.result import Failure, Result
from controller.contracts.units import Unit
from controller.reports.figures import shown
from controller.store.sqlite import SqliteStore
from tests.support import store_examples
from tests.support.command_line import benchfarm, complaint_of


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A home whose store holds a sweep: on a server one result and one failure, on a phone one."""
    home = tmp_path_factory.mktemp("home")
    store = SqliteStore.open(home / "store.sqlite")
    try:
        store.save_agent(store_examples.AGENT, [store_examples.CPU, store_examples.PHONE])
        record = store_examples.sweep_record()
        runs = store.add_sweep(record, store_examples.runs_for(record))
        devices = (store_examples.CPU, store_examples.CPU, store_examples.PHONE)
        outcomes: tuple[Result | Failure, ...] = (
            store_examples.result(),
            store_examples.failure(),
            store_examples.result(0.5),
        )
        for run, device, outcome in zip(runs, devices, outcomes, strict=True):
            granted = store_examples.grant(run, device)
            store.save_runs([granted, store_examples.report(granted.run, outcome)])
    finally:
        store.close()
    return home


@pytest.fixture
def sweep_id() -> str:
    return store_examples.sweep_record().sweep_id


def test_a_sweeps_report_is_written_where_asked(home: Path, sweep_id: str, tmp_path: Path) -> None:
    file = tmp_path / "r.html"
    done = benchfarm(home, "results", "report", sweep_id, "-o", str(file))
    assert done.stdout.decode() == f"report written to {file}\n"
    text = file.read_text()
    assert "<title>Sweep demo – benchfarm</title>" in text
    assert "phone-1" in text
    assert "virtual" in text
    assert "killed" in text
    assert "töö" in text


def test_a_sweeps_summary_is_told_in_three_forms(home: Path, sweep_id: str) -> None:
    said = benchfarm(home, "sweep", "status", sweep_id).stdout.decode()
    cells = json.loads(benchfarm(home, "sweep", "status", sweep_id, "--json").stdout)["cells"]
    lines = benchfarm(home, "sweep", "status", sweep_id, "--csv").stdout.decode().splitlines()
    rows = list(csv.DictReader(lines))
    assert {cell["device"] for cell in cells} == {row["device"] for row in rows}
    for cell in cells:
        assert cell["device"] in said
        told = {row["metric"]: float(row["value"]) for row in rows if row["value"]}
        for name, figure in cell["metrics"].items():
            assert told.keys() >= {name}
            assert shown(figure["value"], Unit(figure["unit"])) in said
    assert "phone-1 (virtual)" in said
    complaint = complaint_of(home, "sweep", "status", "--csv")
    assert "cannot print CSV: no sweep is named" in complaint
    assert "--json asks" in complaint_of(home, "sweep", "status", sweep_id, "--csv", "--json")


def test_what_is_unknown_or_unlike_is_refused(home: Path, sweep_id: str, tmp_path: Path) -> None:
    file = tmp_path / "r.html"
    said = complaint_of(home, "results", "report", sweep_id, "nobody", "-o", str(file))
    assert "cannot find nobody: no sweep, device or cell of that name has an outcome" in said
    said = complaint_of(home, "results", "report", "host-1", "phone-1", "-o", str(file))
    assert "phone-1 is virtual" in said
    assert not file.exists()


def test_unknown_sweep_is_named_with_those_there_are(home: Path, sweep_id: str) -> None:
    said = complaint_of(home, "results", "report", "nope")
    assert "cannot find sweep nope: there is no such sweep" in said
    assert sweep_id in said


def test_file_that_cannot_be_written(home: Path, sweep_id: str, tmp_path: Path) -> None:
    missing = tmp_path / "no" / "r.html"
    said = complaint_of(home, "results", "report", sweep_id, "-o", str(missing))
    assert f"cannot write {missing}: No such file or directory" in said
