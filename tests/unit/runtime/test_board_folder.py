"""Which folder a board may replace, and the checksums in it."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

from controller.contracts.errors import UserError
from controller.runtime.board_folder import SIGNATURE, SUMS, mark, require_own, write_sums


def board_in(folder: Path) -> Path:
    """Write a board of two files."""
    folder.joinpath("rows").mkdir(parents=True)
    folder.joinpath("index.html").write_text("a board")
    folder.joinpath("rows", "x.html").write_text("a row")
    mark(folder)
    write_sums(folder)
    return folder


def test_a_new_an_empty_and_a_boards_own_folder_may_be_replaced(tmp_path: Path) -> None:
    require_own(tmp_path / "new")
    tmp_path.joinpath("empty").mkdir()
    require_own(tmp_path / "empty")
    require_own(board_in(tmp_path / "board"))
    tmp_path.joinpath("board", SIGNATURE).write_text("signature")
    require_own(tmp_path / "board")


@pytest.mark.parametrize("name", ["mine.txt", "rows/mine.html", "empty/", "CNAME"])
def test_a_board_with_a_strangers_file_is_left_alone(name: str, tmp_path: Path) -> None:
    path = board_in(tmp_path / "board") / name
    path.parent.mkdir(exist_ok=True)
    path.mkdir() if name.endswith("/") else path.write_text("mine")
    with pytest.raises(UserError, match="is not part of the board in it"):
        require_own(tmp_path / "board")


def test_a_link_among_a_boards_files_is_a_stranger(tmp_path: Path) -> None:
    board = board_in(tmp_path / "board")
    board.joinpath("elsewhere").symlink_to(tmp_path)
    with pytest.raises(UserError, match="'elsewhere' is not part"):
        require_own(board)


@pytest.mark.parametrize("content", ["", "something else"])
def test_a_folder_with_checksums_of_others_is_left_alone(content: str, tmp_path: Path) -> None:
    tmp_path.joinpath("image.iso").write_text("x")
    write_sums(tmp_path)
    if content:
        tmp_path.joinpath("benchfarm-board.txt").write_text(content)
    with pytest.raises(UserError, match="is not empty and holds no board"):
        require_own(tmp_path)


def test_a_file_is_no_folder(tmp_path: Path) -> None:
    tmp_path.joinpath("file").write_text("x")
    with pytest.raises(UserError, match="it is not a folder"):
        require_own(tmp_path / "file")


def test_sha256sum_checks_the_sums_and_sees_a_changed_file(tmp_path: Path) -> None:
    if not shutil.which("sha256sum"):
        pytest.skip("coreutils has no sha256sum here")
    board = board_in(tmp_path / "board")
    command = ["sha256sum", "--check", "--strict", "--quiet", SUMS]
    assert subprocess.run(command, cwd=board, check=False).returncode == 0
    board.joinpath("rows", "x.html").write_text("another")
    done = subprocess.run(command, cwd=board, check=False, capture_output=True, text=True)
    assert done.returncode == 1
    assert done.stdout == "rows/x.html: FAILED\n"
