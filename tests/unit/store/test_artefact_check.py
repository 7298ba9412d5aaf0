"""The store's check reads artefacts, too: what is missing, damaged or of no run has a line."""

from __future__ import annotations

import shutil
from contextlib import closing
from pathlib import Path

import pytest

from controller.store.artefacts.checking import ArtefactFindings, check_artefacts
from controller.store.artefacts.folder import FolderArtefacts
from controller.store.artefacts.index import NAME
from tests.support.api import RUN, prepared
from tests.support.artefacts import (
    LOG,
    TRACE,
    artefact,
    copy_of,
    fill_artefacts,
    noise,
    send,
    swap,
)
from tests.support.command_line import outcome_of

SUMMARY = "performance/mlperf_log_summary.txt"
SHA256 = artefact(TRACE).sha256
TOLD = f"artifact 2/trace.json of run run-1, sha256 {SHA256}: "


@pytest.fixture
def home(tmp_path: Path) -> Path:
    """A head with two whole artefacts, one still with its agent, one expired."""
    fill_artefacts(tmp_path / "artefacts", "run-1")
    return tmp_path


def found_in(home: Path) -> ArtefactFindings:
    return check_artefacts(home / "artefacts")


def test_what_is_as_it_was_sent_is_counted(home: Path) -> None:
    assert found_in(home) == ArtefactFindings(2)
    with closing(FolderArtefacts(home / "artefacts", room_bytes=0)) as store:
        send(store, artefact(TRACE, "same.json", "run-2"), TRACE)
    assert found_in(home) == ArtefactFindings(3)


def test_where_none_ever_came_there_is_nothing(tmp_path: Path) -> None:
    assert found_in(tmp_path) == ArtefactFindings(0)


def test_a_missing_content_is_named_by_its_first_file(home: Path) -> None:
    copy_of(home, "trace.json", "run-1").unlink()
    assert found_in(home) == ArtefactFindings(1, (f"{TOLD}its content is missing",))


def test_a_content_that_is_another_one_is_named(home: Path) -> None:
    swap(home, "trace.json", "run-1", noise(len(TRACE), seed=7))
    found = found_in(home)
    assert found.sound == 2, "what was put there is some run's, too"
    assert found.lines == (f"{TOLD}its content is not what its checksum says",)


def test_a_content_that_cannot_be_read_is_named(home: Path) -> None:
    copy = copy_of(home, "trace.json", "run-1")
    copy.write_bytes(copy.read_bytes()[:-3])
    (line,) = found_in(home).lines
    assert line.startswith(f"{TOLD}an artefact cannot be read: ")


def test_several_files_of_a_content_are_counted_in_its_line(home: Path) -> None:
    with closing(FolderArtefacts(home / "artefacts", room_bytes=0)) as store:
        for name in ("a", "b"):
            send(store, artefact(TRACE, name, "run-2"), TRACE)
    copy_of(home, "trace.json", "run-1").unlink()
    (line,) = found_in(home).lines
    assert "2/trace.json of run run-1 and 2 more, sha256" in line


def test_a_content_of_no_run_is_named(home: Path) -> None:
    whole = home / "artefacts" / "content"
    stray = artefact(noise(10, seed=3)).sha256
    target = whole / stray[:2] / stray
    target.parent.mkdir(exist_ok=True)
    shutil.copy(copy_of(home, "trace.json", "run-1"), target)
    (line,) = found_in(home).lines
    assert line.startswith(f"artifact content {stray}: no run has it, {len(TRACE)} bytes")
    assert found_in(home).sound == 2


def test_without_an_index_no_content_is_of_a_run(home: Path) -> None:
    for path in (home / "artefacts").glob(f"{NAME}*"):
        path.unlink()
    found = found_in(home)
    assert (found.sound, len(found.lines)) == (0, 2)
    assert all("no run has it" in line for line in found.lines)


def test_a_damaged_index_is_a_line(home: Path) -> None:
    (home / "artefacts" / NAME).write_bytes(b"SQLite format 3\0" + b"\xff" * 5000)
    (line,) = found_in(home).lines
    assert line.startswith("artifacts: ")


def test_the_command_counts_and_names_them(tmp_path: Path) -> None:
    home = prepared(tmp_path / "home").path
    said, complained, status = outcome_of(home, "store", "check")
    assert (complained, status) == ("", 0)
    assert said.endswith(", 2 artifacts\n")
    copy_of(home, "trace.json", RUN).unlink()
    swap(home, SUMMARY, RUN, noise(len(LOG)))
    said, complained, status = outcome_of(home, "store", "check")
    assert (complained, status) == ("", 1)
    lines = said.splitlines()
    assert f"artifact 2/trace.json of run {RUN}, sha256 {SHA256}: its content is missing" in lines
    assert any(f"{SUMMARY} of run {RUN}" in line and "checksum" in line for line in lines)
    assert f"{home / 'store.sqlite'}: 2 lines of damage; undamaged: " in said
    assert "salvage" not in said, "which would mend nothing"
