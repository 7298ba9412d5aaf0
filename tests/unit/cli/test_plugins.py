"""Plugins on the command line: what they bring has its package, what is left out has a line."""

from __future__ import annotations

import json
from contextlib import closing
from pathlib import Path

import pytest
import yaml

from controller.cli.catalogue_names import stacks, workloads
from controller.runtime.farm_facts import stored_facts
from controller.runtime.home import Home
from controller.store.sqlite import SqliteStore
from tests.support.command_line import outcome_of, printed_by
from tests.support.plugins import install

LINE = (
    "benchfarm: package your-farm 1.0 is left out: there are no manifests in your_farm/manifests. "
    "Correct it, or run `pip uninstall your-farm`.\n"
)
SWEEP = {"name": "line", "workload": "line_fit", "stack": "torch-mine", "scenario": "training"}


@pytest.fixture
def site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder on Python's path with a plugin."""
    folder = tmp_path / "site"
    install(folder)
    monkeypatch.syspath_prepend(folder)
    return folder


@pytest.fixture
def sweep(tmp_path: Path) -> str:
    """A sweep of the plugin's workload."""
    file = tmp_path / "line.yaml"
    file.write_text(yaml.safe_dump(SWEEP))
    return str(file)


@pytest.mark.parametrize(("noun", "name"), [("workload", "line_fit"), ("scenario", "first_step")])
def test_a_plugin_s_manifest_has_its_package(
    noun: str, name: str, site: Path, tmp_path: Path
) -> None:
    listed = printed_by(tmp_path, noun, "list")
    rows = [line for line in listed.splitlines() if "my-farm 1.0" in line]
    assert [name in row for row in rows] == [True]
    assert "package" in listed
    assert "my-farm 1.0 (" in printed_by(tmp_path, noun, "show", name)
    (one,) = (
        each
        for each in json.loads(printed_by(tmp_path, noun, "list", "--json"))
        if each["plugin"] is not None
    )
    assert one == json.loads(printed_by(tmp_path, noun, "show", name, "--json"))
    plugin = (one["name"], one["plugin"]["distribution"], one["plugin"]["version"])
    assert plugin == (name, "my-farm", "1.0")


def test_without_plugins_there_is_no_column(tmp_path: Path) -> None:
    assert "package" not in printed_by(tmp_path, "scenario", "list")


def test_completion_offers_them(site: Path) -> None:
    assert "line_fit" in workloads({}, "")
    assert "torch-mine" in stacks({}, "")


def test_a_sweep_of_a_plugin_is_valid(site: Path, sweep: str, tmp_path: Path) -> None:
    assert "1 cells" in printed_by(tmp_path, "sweep", "validate", sweep)


@pytest.mark.parametrize(
    "call",
    [
        ("workload", "list"),
        ("workload", "show", "line_fit"),
        ("scenario", "list"),
        ("scenario", "show", "first_step"),
        ("sweep", "validate", "SWEEP"),
        ("sweep", "plan", "SWEEP"),
        ("sweep", "submit", "SWEEP"),
        ("profile", "run", "line_fit", "--stack", "torch-mine", "-o", "out"),
    ],
)
def test_what_is_left_out_has_a_line(
    call: tuple[str, ...], site: Path, sweep: str, tmp_path: Path
) -> None:
    install(site, {}, name="your-farm", package="your_farm")
    words = (sweep if word == "SWEEP" else word for word in call)
    _, complained, _ = outcome_of(tmp_path, *words)
    assert complained.startswith(LINE)


def test_status_knows_what_is_left_out(site: Path, tmp_path: Path) -> None:
    install(site, {}, name="your-farm", package="your_farm")
    with closing(SqliteStore.open(tmp_path / "store.sqlite")) as store:
        (one,) = stored_facts(Home(tmp_path), store).left_out
    assert f"benchfarm: {one.said}. {one.remedy}\n" == LINE
