"""Writes that a full disk ends: the error says to make room, and nothing half-written is left."""

from __future__ import annotations

import os
import re
import resource
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pytest
import yaml

from controller.contracts.catalog import load_catalog
from controller.contracts.errors import UserError
from models.mobile import catalogue
from models.mobile.errors import NoRoom
from models.mobile.preparation import PrepareOrder, prepare
from models.mobile.samples import Arrays, write_samples
from models.mobile.store import Store
from tests.support.user_program import STACK

MODELS = Path(catalogue.__file__).parents[1]


@pytest.fixture(autouse=True)
def _no_bytecode(monkeypatch: pytest.MonkeyPatch) -> None:
    """Have no module cut off that is imported within a limit."""
    monkeypatch.setattr(sys, "dont_write_bytecode", True)


@pytest.fixture
def store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Store:
    monkeypatch.setenv("BENCHFARM_MODELS", str(tmp_path / "store"))
    return Store(tmp_path / "store")


@contextmanager
def files_of_at_most(most: int) -> Iterator[None]:
    """Let no file of this process grow beyond some bytes, as on a disk without room."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (most, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


def task(store: Store, folder: Path) -> Path:
    document = yaml.safe_load((MODELS / "manifests/mobile/edsr_surrogate.yaml").read_text())
    path = folder / "mine.yaml"
    path.write_text(yaml.safe_dump(document | {"name": "my_surrogate"}))
    return path


def program(store: Store, folder: Path) -> Path:
    path = folder / "program.yaml"
    path.write_text(STACK)
    return path


def model(store: Store, folder: Path) -> Path:
    """Write a model that is in the store already, but not yet a workload."""
    path = folder / "net.tflite"
    path.write_bytes((MODELS / "mobile/surrogates/mosaic_fp32.tflite").read_bytes() + b"\0")
    store.add(path)
    return path


@pytest.mark.parametrize("make", [task, program, model])
def test_a_manifest_is_added_whole_or_not_at_all(
    store: Store, tmp_path: Path, make: Callable[[Store, Path], Path]
) -> None:
    path, before = make(store, tmp_path), load_catalog()
    seen = f"cannot add {re.escape(str(path))}: File too large in .*/store. Make room"
    with files_of_at_most(100), pytest.raises(NoRoom, match=seen):
        catalogue.add(store, path, None)
    assert [file for file in store.folder.rglob("*") if file.suffix in (".yaml", ".new")] == []
    assert load_catalog() == before
    catalogue.add(store, path, None)
    assert load_catalog() != before


class Looking:
    """Samples of 40 kB; before the second, the bytes are noted that the file of all has on disk."""

    def __init__(self, file: Path) -> None:
        self.file, self.on_disk = file, 0

    def __len__(self) -> int:
        return 100

    def inputs(self, index: int) -> Arrays:
        if index == 1:
            self.on_disk = self.file.stat().st_blocks * 512
        return (np.zeros((100, 100), np.float32),)

    def truth(self, index: int) -> None:
        return None


def reserves_space(folder: Path) -> bool:
    """Return whether the file system gives a file its place before it is written."""
    with (folder / "probe").open("wb") as file:
        os.posix_fallocate(file.fileno(), 0, 1 << 20)
        return os.fstat(file.fileno()).st_blocks > 0


def test_all_rows_have_their_place_on_disk_before_the_first_is_written(tmp_path: Path) -> None:
    """A page of a sparse file that finds the disk full would end the process by SIGBUS."""
    if not reserves_space(tmp_path):
        pytest.skip("this file system reserves no space")
    samples = Looking(tmp_path / "in/input_0.npy")
    write_samples(samples, tmp_path / "in", tmp_path / "out")
    assert samples.on_disk >= 100 * 40_000


def test_no_room_for_the_table_of_images_says_so(tmp_path: Path) -> None:
    def image(index: int) -> bytes:
        return b"."

    samples = Looking(tmp_path / "unused")
    with files_of_at_most(500), pytest.raises(OSError, match="File too large"):  # ends: 928 bytes
        write_samples(samples, tmp_path / "in", tmp_path / "out", published=image)


def order(tmp_path: Path, folder: Path) -> PrepareOrder:
    workload = load_catalog().workloads["mosaic_surrogate"].on_device
    assert workload
    return PrepareOrder(
        name="mosaic_surrogate",
        workload=workload,
        numerics="fp32",
        dataset="tiny",
        store=tmp_path / "store",
        folder=folder,
    )


def test_a_task_for_which_there_is_no_room_is_not_left_half_prepared(tmp_path: Path) -> None:
    asked = order(tmp_path, tmp_path / "ready")
    seen = "cannot prepare mosaic_surrogate: File too large in .*/ready. Make room"
    with files_of_at_most(100_000), pytest.raises(NoRoom, match=seen):
        prepare(asked)
    assert not asked.folder.exists()
    assert prepare(asked).samples == 8


def test_a_folder_that_can_t_be_written_is_not_blamed_on_the_data(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    seen = "cannot prepare mosaic_surrogate: Not a directory: .*/file/ready/device. Make it acc"
    with pytest.raises(UserError, match=seen):
        prepare(order(tmp_path, tmp_path / "file/ready"))
