"""Files and folders that are replaced at once."""

from __future__ import annotations

import errno
import os
import stat
from contextlib import nullcontext
from pathlib import Path

import pytest

from controller.platform import atomic
from controller.platform.atomic import replacing, replacing_folder, sync_folder, write_private
from tests.support.syncs import spied_syncs


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


def test_a_private_file_and_its_name_are_on_disk(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    synced = spied_syncs(monkeypatch)
    write_private(tmp_path / "file", "content")
    assert synced == [len("content"), tmp_path]


@pytest.mark.parametrize(("number", "told"), [(errno.EINVAL, False), (errno.EIO, True)])
def test_a_folder_that_cannot_be_synced_is_told_unless_its_file_system_syncs_none(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: int, told: bool
) -> None:
    def failing(_: int) -> None:
        raise OSError(number, "no")

    monkeypatch.setattr(os, "fsync", failing)
    with pytest.raises(OSError, match="no") if told else nullcontext():
        sync_folder(tmp_path)


def _folder(path: Path, content: str) -> Path:
    path.mkdir()
    path.joinpath("file").write_text(content)
    return path


@pytest.mark.parametrize("old", ["none", "empty", "full"])
def test_a_folder_is_replaced_when_the_block_ends(old: str, tmp_path: Path) -> None:
    path = tmp_path / "folder"
    if old != "none":
        _folder(path, "old")
    if old == "empty":
        path.joinpath("file").unlink()
    with replacing_folder(path) as new:
        new.joinpath("other").write_text("new")
        assert path.joinpath("file").exists() is (old == "full")
    assert [file.name for file in path.iterdir()] == ["other"]
    assert [*tmp_path.iterdir()] == [path]


def _replace_half(path: Path, failure: type[BaseException]) -> None:
    with replacing_folder(path) as new:
        new.joinpath("file").write_text("half")
        raise failure


@pytest.mark.parametrize("failure", [OSError, KeyboardInterrupt, SystemExit])
def test_a_failure_leaves_the_old_folder_and_nothing_else(
    tmp_path: Path, failure: type[BaseException]
) -> None:
    path = _folder(tmp_path / "folder", "old")
    with pytest.raises(failure):
        _replace_half(path, failure)
    assert path.joinpath("file").read_text() == "old"
    assert [*tmp_path.iterdir()] == [path]


def test_without_an_exchange_of_folders_the_old_one_is_moved_aside(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def unsupported(one: Path, other: Path) -> None:
        raise OSError(errno.EINVAL, "no exchange")

    monkeypatch.setattr(atomic, "_exchange", unsupported)
    path = _folder(tmp_path / "folder", "old")
    with replacing_folder(path) as new:
        new.joinpath("file").write_text("new")
    assert path.joinpath("file").read_text() == "new"
    assert [*tmp_path.iterdir()] == [path]


def test_a_refused_exchange_leaves_the_old_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refused(one: Path, other: Path) -> None:
        raise OSError(errno.EBUSY, "mounted")

    monkeypatch.setattr(atomic, "_exchange", refused)
    path = _folder(tmp_path / "folder", "old")
    with pytest.raises(OSError, match="mounted"), replacing_folder(path) as new:
        new.joinpath("file").write_text("new")
    assert path.joinpath("file").read_text() == "old"
    assert [*tmp_path.iterdir()] == [path]
