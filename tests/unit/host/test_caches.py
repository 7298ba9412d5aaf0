"""The caches that CPUs can reach, by what the kernel says of them."""

from __future__ import annotations

from pathlib import Path

import pytest

from agents.host.caches import last_level_bytes

MIB = 2**20


def describe(folder: Path, cpu: int, *caches: tuple[int, str, str, str]) -> None:
    """Write what the kernel says of a CPU's caches: level, type, size, CPUs that share it."""
    for number, said in enumerate(caches):
        index = folder / f"cpu{cpu}/cache/index{number}"
        index.mkdir(parents=True)
        for name, value in zip(("level", "type", "size", "shared_cpu_list"), said, strict=True):
            (index / name).write_text(f"{value}\n")


@pytest.fixture
def stacked(tmp_path: Path) -> Path:
    """Four CPUs; each two of them share a cache of 96 MiB, as on an EPYC with stacked caches."""
    for cpu in range(4):
        pair = "0-1" if cpu < 2 else "2-3"
        describe(
            tmp_path,
            cpu,
            (1, "Data", "32K", str(cpu)),
            (1, "Instruction", "32K", str(cpu)),
            (2, "Unified", "1024K", str(cpu)),
            (3, "Unified", "98304K", pair),
        )
    return tmp_path


@pytest.mark.parametrize(
    ("cpus", "caches"), [({0}, 1), ({0, 1}, 1), ({1, 2}, 2), ({0, 1, 2, 3}, 2), (set(), 0)]
)
def test_each_last_level_cache_counts_once(stacked: Path, cpus: set[int], caches: int) -> None:
    assert last_level_bytes(cpus, stacked) == caches * 96 * MIB


def test_a_cpu_without_a_third_level_has_the_second(tmp_path: Path) -> None:
    for cpu in range(2):
        describe(tmp_path, cpu, (1, "Data", "32K", ""), (2, "Unified", "2M", ""))
    assert last_level_bytes({0, 1}, tmp_path) == 4 * MIB


def test_code_is_no_data(tmp_path: Path) -> None:
    describe(tmp_path, 0, (1, "Data", "32K", "0"), (2, "Instruction", "1024K", "0"))
    assert last_level_bytes({0}, tmp_path) == 32 * 2**10


@pytest.mark.parametrize("size", ["", "-1", "1T", "many", "9" * 99])
def test_what_the_kernel_does_not_say_is_nothing(tmp_path: Path, size: str) -> None:
    assert last_level_bytes({0}, tmp_path) == 0
    describe(tmp_path, 0, (3, "Unified", size, "0"))
    assert last_level_bytes({0, 7}, tmp_path) == 0
