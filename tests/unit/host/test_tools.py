from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

import pytest

from agents.host.cpu_lists import format_cpus, format_ranges, parse_cpus
from agents.host.tools import (
    read_host_tools,
    read_huge_pages,
    read_nodes,
    read_siblings,
    read_sockets,
)


@pytest.mark.parametrize(
    ("text", "cpus"), [("0", {0}), ("0-3,8\n", {0, 1, 2, 3, 8}), ("5,1-2", {1, 2, 5})]
)
def test_cpu_lists(text: str, cpus: set[int]) -> None:
    assert parse_cpus(text) == cpus
    assert parse_cpus(format_cpus(cpus)) == cpus
    assert parse_cpus(format_ranges(cpus)) == cpus


@pytest.mark.parametrize("text", ["", "a", "1-", "1,,2", "-1"])
def test_what_is_no_cpu_list(text: str) -> None:
    with pytest.raises(ValueError, match="invalid literal"):
        parse_cpus(text)


@pytest.mark.parametrize("text", ["0-9999999999", "65536", "0-65535,1", "3-1", "0--1"])
def test_what_no_host_has_is_no_cpu_list(text: str) -> None:
    with pytest.raises(ValueError, match=r"range of CPUs|more than 65536 CPUs"):
        parse_cpus(text)


def write(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)


def test_nodes_and_cores_of_a_server(tmp_path: Path) -> None:
    write(tmp_path / "node/node0/cpulist", "0-1,4-5\n")
    write(tmp_path / "node/node1/cpulist", "2-3,6-7\n")
    for cpu in range(8):
        siblings = tmp_path / f"cpu/cpu{cpu}/topology/thread_siblings_list"
        write(siblings, f"{cpu % 4},{cpu % 4 + 4}\n")
        write(tmp_path / f"cpu/cpu{cpu}/topology/physical_package_id", f"{cpu % 2}\n")
    assert read_nodes(tmp_path) == {0: {0, 1, 4, 5}, 1: {2, 3, 6, 7}}
    assert read_siblings(tmp_path) == tuple(frozenset({cpu, cpu + 4}) for cpu in range(4))
    assert read_sockets(tmp_path) == {0: {0, 2, 4, 6}, 1: {1, 3, 5, 7}}
    assert read_nodes(tmp_path / "absent") == {0: frozenset()}
    assert read_sockets(tmp_path / "absent") == {}
    assert read_siblings(tmp_path / "absent") == ()


def test_a_node_of_memory_alone_has_no_cpus(tmp_path: Path) -> None:
    """As CXL's, Optane's or a GPU's memory; the kernel writes an empty line."""
    write(tmp_path / "node/node0/cpulist", "0-3\n")
    write(tmp_path / "node/node1/cpulist", "\n")
    write(tmp_path / "node/node2/cpulist", "")
    assert read_nodes(tmp_path) == {0: {0, 1, 2, 3}, 1: frozenset(), 2: frozenset()}


def test_huge_page_mode(tmp_path: Path) -> None:
    write(tmp_path / "enabled", "always [madvise] never\n")
    assert read_huge_pages(tmp_path / "enabled") == "madvise"
    assert read_huge_pages(tmp_path / "absent") is None


def test_libraries_are_found_where_the_interpreter_and_the_loader_look(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(tmp_path / "venv/lib/libiomp5.so", "")
    write(tmp_path / "unpacked/libjemalloc.so.2", "")
    monkeypatch.setenv("LD_LIBRARY_PATH", f"{tmp_path}/unpacked")
    found = read_host_tools(tmp_path / "venv").libraries
    assert found["intel"] == str(tmp_path / "venv/lib/libiomp5.so")
    assert found["jemalloc"] == str(tmp_path / "unpacked/libjemalloc.so.2")


def test_this_host() -> None:
    tools = read_host_tools()
    assert tools.nodes
    assert tools.siblings
    assert tools.taskset


@pytest.mark.parametrize(
    ("cpus", "text"),
    [({5}, "5"), ({0, 1}, "0-1"), ({9, 0, 2, 3, 4}, "0,2-4,9"), (range(1, 2000), "1-1999")],
)
def test_ranges_of_cpus_are_as_the_kernel_writes_them(cpus: Iterable[int], text: str) -> None:
    assert format_ranges(cpus) == text
