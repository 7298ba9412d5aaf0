"""Files that commands write where a user says: whole, or as they were."""

from __future__ import annotations

import errno
import io
import os
import stat
import threading
from pathlib import Path

import pytest

from controller.cli.common import write_file, write_stream
from controller.contracts.errors import UserError


class FullDisk(io.BytesIO):
    """A stream with one piece, after which the disk is full."""

    def read(self, size: int | None = -1, /) -> bytes:
        if self.tell():
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        self.seek(1)
        return b"half"


@pytest.mark.parametrize("before", [None, b"whole"])
def test_a_failure_leaves_what_was_there_and_nothing_beside(
    tmp_path: Path, before: bytes | None
) -> None:
    path = tmp_path / "out.csv"
    if before is not None:
        path.write_bytes(before)
    with pytest.raises(UserError, match="No space left"):
        write_stream(path, FullDisk())
    assert [each.read_bytes() for each in tmp_path.iterdir()] == ([before] if before else [])


def test_a_file_is_replaced_with_its_mode(tmp_path: Path) -> None:
    path = tmp_path / "out.csv"
    path.write_text("a longer text")
    path.chmod(0o640)
    write_file(path, "new")
    assert (path.read_text(), stat.S_IMODE(path.stat().st_mode)) == ("new", 0o640)
    assert [*tmp_path.iterdir()] == [path]


def test_what_a_link_leads_to_is_written(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("old")
    (tmp_path / "link").symlink_to("file")
    write_file(tmp_path / "link", "new")
    assert (tmp_path / "link").is_symlink()
    assert (tmp_path / "file").read_text() == "new"


def test_a_file_with_two_names_keeps_both(tmp_path: Path) -> None:
    (tmp_path / "one").write_text("old")
    (tmp_path / "two").hardlink_to(tmp_path / "one")
    write_file(tmp_path / "one", "new")
    assert (tmp_path / "two").read_text() == "new"


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a file away")
def test_a_file_of_another_user_stays_theirs(tmp_path: Path) -> None:
    path = tmp_path / "out.csv"
    path.write_text("old")
    os.chown(path, 65534, 65534)
    write_file(path, "new")
    assert (path.read_text(), path.stat().st_uid) == ("new", 65534)


def test_a_pipe_is_written_to(tmp_path: Path) -> None:
    pipe, read = tmp_path / "pipe", list[str]()
    os.mkfifo(pipe)
    reader = threading.Thread(target=lambda: read.append(pipe.read_text()), daemon=True)
    reader.start()
    write_file(pipe, "text")
    reader.join(timeout=30)
    assert read == ["text"]
    assert pipe.is_fifo()


def test_a_file_that_may_not_be_replaced_stays(tmp_path: Path) -> None:
    path = tmp_path / "out.csv"
    path.write_text("old")
    with pytest.raises(UserError, match="it exists already"):
        write_file(path, "new", replace=False)
    assert path.read_text() == "old"
