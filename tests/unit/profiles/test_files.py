"""Folders that hold no profile, or a part of one: the complaint names the file."""

from __future__ import annotations

from pathlib import Path

import pyarrow.parquet as pq
import pytest

from controller.contracts.profile import ProfileSummary
from controller.profiles.errors import ProfileUnreadable
from controller.profiles.files import KERNELS, PRIMITIVES, SUMMARY, read, write
from controller.profiles.model import Profile


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    write(Profile(ProfileSummary(steps=1), (), ()), tmp_path)
    return tmp_path


def complaint(folder: Path) -> str:
    with pytest.raises(ProfileUnreadable) as caught:
        read(folder)
    return caught.value.seen


@pytest.mark.parametrize("name", [SUMMARY, KERNELS, PRIMITIVES])
def test_a_file_that_is_missing_is_named(folder: Path, name: str) -> None:
    (folder / name).unlink()
    assert complaint(folder) == f"{name}: No such file or directory"


@pytest.mark.parametrize("name", [SUMMARY, KERNELS, PRIMITIVES])
def test_a_file_that_cannot_be_opened_is_named(folder: Path, name: str) -> None:
    (folder / name).unlink()
    (folder / name).mkdir()
    assert complaint(folder) == f"{name}: Is a directory"


def test_a_file_that_may_not_be_read_is_named(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refused(*_: object, **__: object) -> None:
        raise PermissionError(
            13, "Failed to open local file: Permission denied"
        )  # as pyarrow has it

    monkeypatch.setattr(pq, "ParquetFile", refused)
    assert complaint(folder) == f"{KERNELS}: Failed to open local file: Permission denied"


@pytest.mark.parametrize("name", [SUMMARY, KERNELS, PRIMITIVES])
def test_a_broken_file_is_named(folder: Path, name: str) -> None:
    (folder / name).write_bytes(b"PAR1 nonsense PAR1")
    assert complaint(folder).startswith(f"{name}: ")
