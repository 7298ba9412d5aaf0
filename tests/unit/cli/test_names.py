"""Devices, sweeps and runs by name or beginning, in each command that reads the store."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from controller.contracts.device import DeviceLife, RegisteredDevice
from controller.contracts.run import Run
from controller.store.sqlite import SqliteStore
from tests.support import store_examples
from tests.support.command_line import benchfarm, complaint_of, printed_by

LONG = "cpu-67b5a1c3"
SHOWN = "xeon-3 · cpu-67b5…"


def server(id_: str, host: str, name: str | None = None) -> RegisteredDevice:
    update = {"id": id_, "facts": {**store_examples.CPU.device.facts, "hostname": host}}
    device = store_examples.CPU.device.model_copy(update=update)
    return store_examples.CPU.model_copy(update={"device": device, "life": DeviceLife(name=name)})


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A home with two servers, one of them named, and two sweeps of one name with results."""
    home = tmp_path_factory.mktemp("home")
    servers = server(LONG, "xeon-3.lab"), server("cpu-68000000", "xeon-4", "left")
    store = SqliteStore.open(home / "store.sqlite")
    try:
        store.save_agent(store_examples.AGENT, servers)
        for generation in (1, 2):
            record = store_examples.sweep_record(generation=generation)
            record = record.model_copy(update={"submitted_at": 1000.0 + generation})
            runs = store.add_sweep(record, store_examples.runs_for(record))
            for run, device in zip(runs, servers, strict=False):
                _measure(store, run, device)
    finally:
        store.close()
    return home


def _measure(store: SqliteStore, run: Run, device: RegisteredDevice) -> None:
    granted = store_examples.grant(run, device)
    store.save_runs([granted, store_examples.report(granted.run, store_examples.result())])


def sweep_id(generation: int) -> str:
    return store_examples.sweep_record(generation=generation).sweep_id


@pytest.mark.parametrize("given", [LONG, "cpu-67", "xeon-3", "cpu-67b5…", SHOWN])
def test_a_device_is_shown_by_any_of_its_words(home: Path, given: str) -> None:
    said = printed_by(home, "device", "show", given)
    assert SHOWN in said
    assert LONG in said
    assert json.loads(printed_by(home, "device", "show", given, "--json"))["name"] == SHOWN


def test_every_table_shows_the_name_and_json_and_csv_both(home: Path, tmp_path: Path) -> None:
    newest, csv = sweep_id(2), tmp_path / "results.csv"
    for arguments in (
        ("device", "list"),
        ("results", "list", "--sweep", newest),
        ("sweep", "status", newest),
    ):
        said = printed_by(home, *arguments)
        assert SHOWN in said, arguments
        assert "left" in said, arguments
        assert LONG not in said, arguments
    cells = json.loads(printed_by(home, "sweep", "status", newest, "--json"))["cells"]
    assert {(c["device"], c["device_name"]) for c in cells} == {
        (LONG, SHOWN),
        ("cpu-68000000", "left"),
    }
    assert f"{LONG},{SHOWN}," in printed_by(home, "sweep", "status", newest, "--csv")
    printed_by(home, "results", "export", str(csv), "--format", "csv")
    assert f",{LONG},{SHOWN},cpu_host," in csv.read_text()


def test_a_sweeps_name_is_its_newest_which_is_said_and_leaves_json_alone(home: Path) -> None:
    done = benchfarm(home, "sweep", "status", "demo", "--json")
    assert done.stderr.decode() == f"sweep demo is {sweep_id(2)}, the newest of 2\n"
    assert json.loads(done.stdout)["sweep_id"] == sweep_id(2)
    beginning = sweep_id(1)[:-3]
    assert sweep_id(1) in printed_by(home, "sweep", "status", beginning)
    assert len(json.loads(printed_by(home, "results", "list", "--sweep", beginning, "--json"))) == 2


def test_a_run_is_shown_by_its_beginning(home: Path) -> None:
    run_id = json.loads(printed_by(home, "results", "list", "--json"))[0]["run_id"]
    assert json.loads(printed_by(home, "results", "show", run_id[:-2], "--json"))


def test_a_report_compares_devices_by_name(home: Path, tmp_path: Path) -> None:
    file = tmp_path / "r.html"
    printed_by(home, "results", "report", "xeon-3", "left", "-o", str(file))
    assert f'title="{LONG}">{SHOWN}<' in file.read_text()


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("device", "show", "cpu-6"), f"it could be {SHOWN} ({LONG}), left (cpu-68000000)."),
        (("device", "history", "xeon"), f"it could be {SHOWN} ({LONG}), left"),
        (("device", "capabilities", "lefft"), "no such device. Did you mean left?"),
        (("device", "show", ""), "its id is empty"),
        (("sweep", "status", "dem"), f"it could be {sweep_id(2)}, {sweep_id(1)}. Type more"),
        (("sweep", "status", "demmo"), "no such sweep. Did you mean demo?"),
        (("sweep", "watch", "demmo"), "no such sweep. Did you mean demo?"),
        (("sweep", "cancel", "demmo"), "no such sweep. Did you mean demo?"),
        (("results", "list", "--sweep", "x"), f"no such sweep. Known: {sweep_id(2)}"),
        (("results", "show", ""), "its id is empty"),
        (("device", "rename", "left"), "there is no name. Run `benchfarm device rename DEVICE"),
        (("device", "rename", "left", "x", "--clear"), "--clear and a name are both given"),
        (("device", "rename", "left", "a b"), "cannot use name a b: it is not allowed"),
        (("device", "forget", "left", "--why", ""), "cannot use why ''"),
    ],
)
def test_what_is_not_found_is_one_line(home: Path, arguments: tuple[str, ...], said: str) -> None:
    assert said in complaint_of(home, *arguments)
