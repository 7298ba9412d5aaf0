from __future__ import annotations

import mmap
import platform

import pytest

from agents.host.cpu import (
    TILE_LEAF,
    InstructionSets,
    cpu_flags,
    cpuid,
    instruction_sets,
    read_cpuinfo,
    read_instruction_sets,
)

XEON = {"flags": "fpu sse4_2 avx512f amx_bf16 amx_tile amx_int8 hypervisor"}
AMX = ("amx_bf16", "amx_tile", "amx_int8")


def test_tiles_without_a_palette_are_unusable() -> None:
    assert instruction_sets(XEON, 0) == InstructionSets(("sse4_2", "avx512f"), AMX)


@pytest.mark.parametrize("palettes", [1, 2, None])
def test_tiles_with_a_palette_or_of_which_nothing_is_known_are_usable(palettes: int | None) -> None:
    assert instruction_sets(XEON, palettes) == InstructionSets(("sse4_2", "avx512f", *AMX), ())


def test_a_cpu_that_announces_no_tiles_lacks_nothing() -> None:
    assert instruction_sets({"flags": "fpu avx2 fma"}, 0) == InstructionSets(("avx2", "fma"), ())
    arm = {"Features": "fp asimd bf16 sve"}
    assert instruction_sets(arm, None) == InstructionSets(("asimd", "bf16", "sve"), ())


def test_this_host_has_some_of_what_its_cpu_announces() -> None:
    found = read_instruction_sets()
    assert found.usable
    assert {*found.usable, *found.unusable} < {*cpu_flags(read_cpuinfo())}


@pytest.mark.skipif(platform.machine() != "x86_64", reason="CPUID is an instruction of x86")
def test_cpuid_says_what_linux_says_of_this_cpu() -> None:
    version, linux = cpuid(1), read_cpuinfo()
    assert version is not None
    assert version & 0xF == int(linux["stepping"])
    assert (version >> 4 & 0xF) | (version >> 12 & 0xF0) == int(linux["model"])


def test_nothing_is_known_of_another_architecture(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("agents.host.cpu.platform.machine", lambda: "aarch64")
    assert cpuid(TILE_LEAF) is None


def test_nothing_is_known_where_no_memory_may_be_written_and_executed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def refuse(*_: object, prot: int) -> mmap.mmap:
        assert prot & mmap.PROT_EXEC
        raise PermissionError

    monkeypatch.setattr("agents.host.cpu.mmap.mmap", refuse)
    assert cpuid(TILE_LEAF) is None
