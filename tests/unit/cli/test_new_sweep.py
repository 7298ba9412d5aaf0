"""`sweep new` writes a commented file that is a sweep as it is."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml

from controller.contracts.catalog import load_catalog
from controller.contracts.sweep import PairedComparison, Sweep
from controller.contracts.sweep_file import keys_of, parse_sweep
from controller.scheduling.expansion import cells_of
from tests.support.command_line import complaint_of, printed_by

TEMPLATE = (Path(__file__).parents[3] / "controller/cli/new_sweep.yaml").read_text()
INSTEAD = ("stack", "recipes", "baseline")
"""Keys that `paired` replaces."""


def test_the_file_is_valid_as_written(tmp_path: Path) -> None:
    file = tmp_path / "new.yaml"
    printed_by(tmp_path, "sweep", "new", str(file))
    assert "4 cells × 3 repeats, no errors" in printed_by(tmp_path, "sweep", "validate", str(file))


def test_it_is_named_sweep_yaml(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert printed_by(tmp_path, "sweep", "new").startswith("sweep.yaml: edit it")
    assert (tmp_path / "sweep.yaml").is_file()


def test_a_dash_prints_what_a_file_has(tmp_path: Path) -> None:
    file = tmp_path / "new.yaml"
    printed_by(tmp_path, "sweep", "new", str(file))
    assert printed_by(tmp_path, "sweep", "new", "-") == file.read_text()


@pytest.mark.parametrize("there", ["file", "link", "folder"])
def test_what_is_there_stays(there: str, tmp_path: Path) -> None:
    file, target = tmp_path / "mine.yaml", tmp_path / "elsewhere.yaml"
    match there:
        case "file":
            file.write_text("mine")
        case "link":
            file.symlink_to(target)  # leads to nothing
        case _:
            file.mkdir()
    complaint = complaint_of(tmp_path, "sweep", "new", str(file))
    assert "it exists already. Name another file, or remove that one." in complaint
    assert not target.exists()
    assert there != "file" or file.read_text() == "mine"


@pytest.mark.parametrize("name", ["none/x.yaml", ""])
def test_a_file_that_cannot_be_written_is_one_line(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert "cannot write" in complaint_of(tmp_path, "sweep", "new", name)


def test_it_shows_every_key() -> None:
    keys = {line.lstrip("# ").partition(":")[0] for line in TEMPLATE.splitlines()}
    assert {*keys_of(Sweep), *keys_of(PairedComparison)} <= keys


def test_a_comparison_as_in_its_comment_is_valid() -> None:
    _, paired, rest = TEMPLATE.partition("# paired:\n")
    commented = "\n".join(line.removeprefix("# ") for line in f"{paired}{rest}".splitlines())
    kept = {k: v for k, v in yaml.safe_load(TEMPLATE).items() if k not in INSTEAD}
    text = yaml.safe_dump({**kept, **yaml.safe_load(commented)})
    assert all(cell.versus for cell in cells_of(parse_sweep(text.encode(), "x"), load_catalog()))


@pytest.mark.parametrize("key", ["devices", "priority", "profile"])
def test_other_values_in_comments_are_valid(key: str) -> None:
    lines = [line for line in TEMPLATE.splitlines() if line.startswith(f"# {key}: ")]
    assert lines
    for line in lines:
        given = {**yaml.safe_load(TEMPLATE), **yaml.safe_load(line.removeprefix("# "))}
        assert cells_of(parse_sweep(yaml.safe_dump(given).encode(), "x"), load_catalog())
