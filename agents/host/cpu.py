"""What this server's CPU says it is, and which of the instruction sets it announces can be used.

Some hypervisors pass AMX's flags on (CPUID leaf 7), but not what its tiles are like (leaf 1DH,
Intel SDM vol. 2A). oneDNN 3.12, which torch 2.13 has, goes by the flags alone: there it makes
programs that die of SIGILL (oneDNN issue 5689). On such a machine AMX counts as absent.
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
"""Of CPUID; leaves the number of the last tile palette in EAX."""

_ISA = re.compile(r"^(sse4|avx|amx|fma|f16c|asimd|sve|bf16|i8mm)")
_CPUID = bytes.fromhex("53 89f8 89f1 0fa2 5b c3")
"""uint32_t (uint32_t leaf, uint32_t subleaf) by x86-64's System V convention: EAX after CPUID."""


@dataclass(frozen=True, slots=True)
class InstructionSets:
    """Of a CPU, as /proc/cpuinfo names them."""

    usable: tuple[str, ...]
    unusable: tuple[str, ...]
    """Announced, and not there for programs."""


def instruction_sets(cpuinfo: Mapping[str, str], palettes: int | None) -> InstructionSets:
    """Tell a CPU's instruction sets apart.

    palettes: number of the last tile palette, 0 without any; None where it can't be asked.
    """
    isa = tuple(flag for flag in cpu_flags(cpuinfo) if _ISA.match(flag))
    unusable = tuple(flag for flag in isa if palettes == 0 and flag.startswith("amx"))
    return InstructionSets(tuple(flag for flag in isa if flag not in unusable), unusable)


def read_instruction_sets() -> InstructionSets:
    """Look at this host's CPU."""
    return instruction_sets(read_cpuinfo(), cpuid(TILE_LEAF))


def cpu_flags(cpuinfo: Mapping[str, str]) -> list[str]:
    """Return what the CPU announces: `flags` on x86, `Features` on Arm."""
    return cpuinfo.get("flags", cpuinfo.get("Features", "")).split()


def read_cpuinfo() -> dict[str, str]:
    """Return the first CPU's fields of /proc/cpuinfo."""
    with CPUINFO.open() as lines:  # of hundreds of CPUs the kernel would gather more than is read
        pairs = [line.partition(":") for line in takewhile(str.strip, lines)]
    return {key.strip(): value.strip() for key, _, value in pairs}


def cpuid(leaf: int) -> int | None:
    """Return what the instruction CPUID leaves in EAX; None where it can't be run."""
    if platform.machine() != "x86_64":
        return None
    protection = mmap.PROT_READ | mmap.PROT_WRITE | mmap.PROT_EXEC
    try:
        page = mmap.mmap(-1, mmap.PAGESIZE, prot=protection)
    except OSError:  # some systems let no memory be written and executed
        return None
    page.write(_CPUID)
    code = ctypes.c_char.from_buffer(page)
    function = ctypes.CFUNCTYPE(ctypes.c_uint32, ctypes.c_uint32, ctypes.c_uint32)
    return int(function(ctypes.addressof(code))(leaf, 0))
