"""The memory that a process can have, on a host and in control groups of both versions."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import psutil
import pytest

from controller.platform.memory import available_bytes, memory_limit, oom_kills
from tests.support.memory_limit import limited_memory

ROOT = Path(__file__).parents[3]
MIB = 2**20
V1 = "5:memory:/a\n0::/\n"
EVENTS = "max 5\noom 3\noom_kill 2\n"


def planted(folder: Path, own: str, files: dict[str, str]) -> tuple[Path, Path]:
    """Write a process's control groups; returns the file that names them, and their root."""
    (folder / "own").write_text(own)
    for name, text in files.items():
        file = folder / "groups" / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)
    return folder / "own", folder / "groups"


@pytest.mark.parametrize(
    ("own", "files", "limit"),
    [
        ("0::/a/b\n", {"a/memory.max": "300\n", "a/b/memory.max": "max\n"}, 300),
        ("0::/a\n", {"a/memory.max": "max\n"}, None),
        ("0::/\n", {"memory.max": "200\n"}, 200),
        (V1, {"memory/a/memory.limit_in_bytes": "100\n"}, 100),
        ("4:cpu,cpuacct:/a\n", {"a/memory.max": "100\n"}, None),
        ("0::/gone\n", {}, None),
    ],
)
def test_the_lowest_limit_of_the_control_groups_counts(
    tmp_path: Path, own: str, files: dict[str, str], limit: int | None
) -> None:
    assert memory_limit(*planted(tmp_path, own, files)) == limit


@pytest.mark.parametrize(
    ("own", "files", "left"),
    [
        ("0::/a\n", {"a/memory.max": "300\n", "a/memory.current": "100\n"}, 200),
        (
            "0::/a\n",
            {
                "a/memory.max": "300\n",
                "a/memory.current": "100\n",
                "a/memory.stat": "anon 60\ninactive_file 30\nactive_file 10\n",
            },
            240,
        ),
        (
            "0::/a/b\n",
            {
                "a/memory.max": "300\n",
                "a/memory.current": "290\n",
                "a/b/memory.max": "200\n",
                "a/b/memory.current": "10\n",
            },
            10,
        ),
        ("0::/a\n", {"a/memory.max": "300\n", "a/memory.current": "310\n"}, 0),
        (
            V1,
            {
                "memory/a/memory.limit_in_bytes": "300\n",
                "memory/a/memory.usage_in_bytes": "100\n",
                "memory/a/memory.stat": "inactive_file 1\ntotal_inactive_file 50\n",
            },
            250,
        ),
        (
            "0::/a\n",
            {"a/memory.max": "300\n", "a/memory.high": "150\n", "a/memory.current": "100\n"},
            50,
        ),
        (
            V1,
            {
                "memory/a/memory.limit_in_bytes": "9223372036854771712\n",  # its word for none
                "memory/a/memory.usage_in_bytes": "100\n",
            },
            None,
        ),
        ("0::/a\n", {"a/memory.max": "300\n"}, None),
        ("0::/a\n", {"a/memory.max": "max\n", "a/memory.current": "100\n"}, None),
        ("0::/gone\n", {}, None),
    ],
)
def test_what_control_groups_leave_is_available(
    tmp_path: Path, own: str, files: dict[str, str], left: int | None
) -> None:
    """None: what the host has, of which these groups take nothing away."""
    found = available_bytes(*planted(tmp_path, own, files))
    if left is None:
        assert 300 < found <= psutil.virtual_memory().total
    else:
        assert found == left


@pytest.mark.parametrize(
    ("own", "files", "kills"),
    [
        ("0::/a/b\n", {"a/memory.events": "oom_kill 9\n", "a/b/memory.events": EVENTS}, 2),
        ("0::/moved/from\n", {"memory.events": EVENTS}, 2),  # a container, seen from inside
        (V1, {"memory/a/memory.oom_control": "under_oom 0\noom_kill 2\n"}, 2),
        (V1, {"memory/a/memory.oom_control": "under_oom 0\n"}, 7),  # before Linux 4.13
        ("0::/\n", {"memory.max": "max\n"}, 7),
        ("0::/\n", {"memory.events": "low\noom_kill no\n"}, 7),
    ],
)
def test_only_the_groups_own_processes_count_as_killed_for_memory(
    tmp_path: Path, own: str, files: dict[str, str], kills: int
) -> None:
    (vmstat := tmp_path / "vmstat").write_text("nr_free_pages 5\noom_kill 7\n")
    assert oom_kills(*planted(tmp_path, own, files), vmstat) == kills


def test_a_container_has_no_more_than_its_limit() -> None:
    script = (
        "from controller.platform.memory import available_bytes, memory_limit\n"
        "print(memory_limit(), available_bytes())\n"
    )
    with limited_memory(256 * MIB) as limited:
        command = [*limited.within, sys.executable, "-P", "-c", script]
        environ = {**os.environ, "PYTHONPATH": str(ROOT)}
        done = subprocess.run(command, env=environ, capture_output=True, check=True, text=True)
    limit, available = map(int, done.stdout.split())
    assert limit == 256 * MIB
    assert 0 < available < 256 * MIB, "the interpreter itself has some of it"
