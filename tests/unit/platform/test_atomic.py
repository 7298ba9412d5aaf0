"""Files that are replaced at once."""

from __future__ import annotations

import stat
from pathlib import Path

import pytest

from controller.platform.atomic import replacing, write_private


def test_a_file_is_replaced_when_the_block_ends(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_text("old")
    with replacing(path) as new:
        new.write_text("new")
        assert path.read_text() == "old"
    assert path.read_text() == "new"
    assert [*tmp_path.iterdir()] == [path]


def _fail_half_way(path: Path, failure: type[BaseException]) -> None:
    with replacing(path) as new:
        new.write_text("half")
        raise failure


@pytest.mark.parametrize("failure", [OSError, KeyboardInterrupt])
def test_a_failure_leaves_the_old_file_and_nothing_else(
    tmp_path: Path, failure: type[BaseException]
) -> None:
    path = tmp_path / "file"
    path.write_text("old")
    with pytest.raises(failure):
        _fail_half_way(path, failure)
    assert path.read_text() == "old"
    assert [*tmp_path.iterdir()] == [path]


def test_a_name_may_be_as_long_as_names_can_be(tmp_path: Path) -> None:
    path = tmp_path / ("n" * 255)
    write_private(path, "content")
    assert path.read_text() == "content"


def test_a_private_file_is_so_whoever_could_read_the_old_one(tmp_path: Path) -> None:
    path = tmp_path / "secret"
    path.touch(mode=0o644)
    write_private(path, "content")
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
