"""What a run's program leaves in its folder is taken only if it is a plain file there."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from agents.artefact_files import Found, Limits, files_of, opened


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    secret = tmp_path / "secret"
    secret.mkdir()
    (secret / "key").write_text("secret")
    folder = tmp_path / "run"
    (folder / "performance").mkdir(parents=True)
    (folder / "output.log").write_text("log")
    (folder / "performance" / "trace.json").write_text("longer")
    return folder


PLAIN = ("output.log", "performance/trace.json")


def test_plain_files_are_found_below_the_folder(folder: Path) -> None:
    assert files_of(folder) == Found(PLAIN, ())
    for name in PLAIN:
        with opened(folder, name) as file:
            assert file.read() == (folder / name).read_bytes()


def test_a_folder_that_is_not_there_has_none(tmp_path: Path) -> None:
    assert files_of(tmp_path / "none") == Found((), ())


def test_links_and_pipes_and_odd_names_are_left_out(folder: Path, tmp_path: Path) -> None:
    (folder / "link").symlink_to(tmp_path / "secret" / "key")
    (folder / "away").symlink_to(tmp_path / "secret")
    (folder / "round").symlink_to(folder)
    os.mkfifo(folder / "pipe")
    (folder / "two\nlines").write_text("")
    Path(os.fsdecode(os.fsencode(folder) + b"/\xff\xfe")).write_text("")
    found = files_of(folder)
    assert found.names == PLAIN
    said = "\n".join(found.left_out)
    assert "'link': it is no regular file" in said
    assert "'pipe': it is no regular file" in said
    assert "'two\\nlines': it has characters" in said
    assert r"'\udcff\udcfe': it has characters" in said
    assert "secret" not in said


@pytest.mark.parametrize("name", ["link", "away/key", "pipe", "performance", "none"])
def test_nothing_else_is_opened(folder: Path, tmp_path: Path, name: str) -> None:
    """A link may take a file's place after it was found."""
    (folder / "link").symlink_to(tmp_path / "secret" / "key")
    (folder / "away").symlink_to(tmp_path / "secret")
    os.mkfifo(folder / "pipe")
    with pytest.raises(OSError, match=r"."):
        opened(folder, name)


def test_the_smallest_files_go_first_if_all_are_too_many(folder: Path) -> None:
    (folder / "big").write_bytes(bytes(100))
    assert files_of(folder, Limits(files=2)).names == PLAIN
    assert files_of(folder, Limits(total_bytes=9)).names == PLAIN
    found = files_of(folder, Limits(total_bytes=8))
    assert found.names == ("output.log",)
    assert [line.partition(":")[0] for line in found.left_out] == [
        "'performance/trace.json'",
        "'big'",
    ]
