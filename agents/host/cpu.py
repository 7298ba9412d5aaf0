"""The server's CPU: its reported instruction sets, and those that programs can use.

Some hypervisors pass on AMX's flags (CPUID leaf 7), but not the description of its tiles (leaf 1DH,
Intel SDM vol. 2A). oneDNN 3.12, in torch 2.13, relies on the flags alone, and generates programs
that die of SIGILL there (oneDNN issue 5689). On such a machine AMX counts as absent.
"""

from __future__ import annotations

import ctypes
import mmap
import platform
import re
from collections.abc import Mapping
from dataclasses import dataclass
from itertools import takewhile
from pathlib import Path

CPUINFO = Path("/proc/cpuinfo")
TILE_LEAF = 0x1D
"""CPUID leaf; EAX is the number of the last tile palette."""

_ISA = re.compile(r"^(sse4|avx|amx|fma|f16c|asimd|sve|bf16|i8mm)")
_CPUID = bytes.fromhex("53 89f8 89f1 0fa2 5b c3")
"""uint32_t (uint32_t leaf, uint32_t subleaf) by x86-64's System V convention: EAX after CPUID."""


@dataclass(frozen=True, slots=True)
class InstructionSets:
    """The instruction sets of a CPU, as /proc/cpuinfo names them."""

    usable: tuple[str, ...]
    unusable: tuple[str, ...]
    """Reported by the CPU, but not usable by programs."""


def instruction_sets(cpuinfo: Mapping[str, str], palettes: int | None) -> InstructionSets:
    """Return a CPU's usable and unusable instruction sets.

    palettes: number of the last tile palette, 0 without any; None if unknown.
    """
    isa = tuple(flag for flag in cpu_flags(cpuinfo) if _ISA.match(flag))
    unusable = tuple(flag for flag in isa if palettes == 0 and flag.startswith("amx"))
    return InstructionSets(tuple(flag for flag in isa if flag not in unusable), unusable)


def read_instruction_sets() -> InstructionSets:
    """Return the instruction sets of this host's CPU."""
    return instruction_sets(read_cpuinfo(), cpuid(TILE_LEAF))


def cpu_flags(cpuinfo: Mapping[str, str]) -> list[str]:
    """Return the flags that the CPU reports: `flags` on x86, `Features` on Arm."""
    return cpuinfo.get("flags", cpuinfo.get("Features", "")).split()


def read_cpuinfo() -> dict[str, str]:
    """Return the first CPU's fields of /proc/cpuinfo."""
    with CPUINFO.open() as lines:  # for hundreds of CPUs the kernel would format more than is read
        pairs = [line.partition(":") for line in takewhile(str.strip, lines)]
    return {key.strip(): value.strip() for key, _, value in pairs}


def cpuid(leaf: int) -> int | None:
    """Return EAX of the instruction CPUID; None if it can't be executed."""
    if platform.machine() != "x86_64":
        return None
    protection = mmap.PROT_READ | mmap.PROT_WRITE | mmap.PROT_EXEC
    try:
        page = mmap.mmap(-1, mmap.PAGESIZE, prot=protection)
    except OSError:  # some systems forbid memory that is writable and executable
        return None
    page.write(_CPUID)
    code = ctypes.c_char.from_buffer(page)
    function = ctypes.CFUNCTYPE(ctypes.c_uint32, ctypes.c_uint32, ctypes.c_uint32)
    return int(function(ctypes.addressof(code))(leaf, 0))
