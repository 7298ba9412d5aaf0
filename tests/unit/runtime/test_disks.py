"""Whether a farm's disks have room for it."""

from __future__ import annotations

from pathlib import Path

import pytest

from controller.contracts.disk import LEAST_FREE_BYTES
from controller.contracts.errors import HomeUnusable
from controller.runtime.disks import DiskFacts, disks_of, require_room


def test_a_farm_is_not_started_where_it_has_no_room(tmp_path: Path) -> None:
    home = tmp_path / "deep" / "home"
    looked: list[Path] = []

    def read(folder: Path) -> DiskFacts:
        looked.append(folder)
        return DiskFacts(folder, 60 << 20, None)

    with pytest.raises(HomeUnusable) as raised:
        require_room(home, read)
    assert raised.value.seen == (
        f"60 MiB are free on the disk of {tmp_path}, and a farm needs 64 MiB"
    )
    assert "BENCHFARM_HOME and TMPDIR" in raised.value.remedy
    assert looked == [tmp_path], "the nearest folder that exists"
    assert not home.exists()


def test_just_enough_suffices(tmp_path: Path) -> None:
    require_room(tmp_path, lambda folder: DiskFacts(folder, LEAST_FREE_BYTES, None))


def test_a_disk_is_looked_at_once(tmp_path: Path) -> None:
    disks = list(disks_of(tmp_path))
    assert disks[0] == tmp_path
    assert len({disk.stat().st_dev for disk in disks}) == len(disks)
