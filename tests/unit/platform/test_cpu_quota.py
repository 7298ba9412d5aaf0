"""The CPU quotas of control groups of both versions, and for how long they have stopped them."""

from __future__ import annotations

from pathlib import Path

import pytest

from controller.platform.cpu_quota import cpu_quota, quota_throttled_us
from tests.support.fake_sysfs import Files, write_files

V1 = "4:cpu,cpuacct:/a\n3:memory:/m"


def planted(folder: Path, own: str, files: Files) -> tuple[Path, Path]:
    """Write a process's control groups; returns the file that names them, and their root."""
    write_files(folder, {"own": own, **{f"groups/{name}": text for name, text in files.items()}})
    return folder / "own", folder / "groups"


@pytest.mark.parametrize(
    ("own", "files", "cores"),
    [
        ("0::/", {"cpu.max": "200000 100000"}, 2.0),
        ("0::/a/b", {"a/cpu.max": "150000 100000", "a/b/cpu.max": "max 100000"}, 1.5),
        ("0::/a/b", {"a/cpu.max": "50000 100000", "a/b/cpu.max": "400000 100000"}, 0.5),
        ("0::/a", {"a/cpu.max": "max 100000"}, None),
        (V1, {"cpu/a/cpu.cfs_quota_us": "200000", "cpu/a/cpu.cfs_period_us": "100000"}, 2.0),
        (V1, {"cpu/a/cpu.cfs_quota_us": "-1", "cpu/a/cpu.cfs_period_us": "100000"}, None),
        ("3:memory:/a", {"cpu/a/cpu.cfs_quota_us": "1", "cpu/a/cpu.cfs_period_us": "1"}, None),
        ("0::/gone", {}, None),
        ("0::/", {"cpu.max": ""}, None),
        ("0::/", {"cpu.max": "200000"}, None),
        ("0::/", {"cpu.max": "200000 0"}, None),
        ("", {"cpu.max": "200000 100000"}, None),
        ("damaged", {"cpu.max": "200000 100000"}, None),
    ],
)
def test_the_lowest_quota_of_the_control_groups_counts(
    tmp_path: Path, own: str, files: Files, cores: float | None
) -> None:
    assert cpu_quota(*planted(tmp_path, own, files)) == cores


STAT = "nr_periods 9\nnr_throttled 3\n"


@pytest.mark.parametrize(
    ("own", "files", "us"),
    [
        ("0::/", {"cpu.stat": f"usage_usec 5\n{STAT}throttled_usec 70"}, 70),
        (
            "0::/a/b",
            {
                "cpu.stat": "usage_usec 5",
                "a/cpu.stat": f"{STAT}throttled_usec 70",
                "a/b/cpu.stat": f"{STAT}throttled_usec 5",
            },
            75,
        ),
        (V1, {"cpu/a/cpu.stat": f"{STAT}throttled_time 70999"}, 70),
        (V1, {"cpu/cpu.stat": f"{STAT}throttled_time 0"}, 0),
        ("0::/a", {"a/cpu.stat": "usage_usec 5"}, None),
        ("0::/a", {"a/cpu.stat": "throttled_usec much"}, None),
        ("0::/gone", {}, None),
    ],
)
def test_what_quotas_have_stopped_is_summed(
    tmp_path: Path, own: str, files: Files, us: int | None
) -> None:
    assert quota_throttled_us(*planted(tmp_path, own, files)) == us
