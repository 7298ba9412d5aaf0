"""Host facts for launch settings: NUMA nodes, sockets, preloadable libraries, numactl, huge pages,
instruction sets."""

from __future__ import annotations

import os
import re
import shutil
import sys
from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from agents.host.compiler import compiler
from agents.host.cpu import read_instruction_sets
from agents.host.cpu_lists import parse_cpus
from controller.platform.cpu_quota import cpu_quota
from controller.platform.user_cache import user_cache

SYSTEM = Path("/sys/devices/system")
HUGE_PAGES = Path("/sys/kernel/mm/transparent_hugepage/enabled")


@dataclass(frozen=True, slots=True)
class Library:
    """A library to preload, and how to install it."""

    soname: str
    remedy: str


LIBRARIES: Mapping[str, Library] = {
    "jemalloc": Library("libjemalloc.so.2", "Run `apt-get install libjemalloc2`."),
    "tcmalloc": Library("libtcmalloc_minimal.so.4", "Run `apt-get install libtcmalloc-minimal4`."),
    "llvm": Library("libomp.so.5", "Run `apt-get install libomp5`."),
    "intel": Library(
        "libiomp5.so",
        "Run `pip install intel-openmp==2024.1.2` where the stack runs, or use stack ipex.",
    ),
}


@dataclass(frozen=True, slots=True)
class HostTools:
    """The tools and facts of a host."""

    nodes: Mapping[int, frozenset[int]]
    """NUMA node → its logical CPUs."""
    sockets: Mapping[int, frozenset[int]]
    """Socket → its logical CPUs."""
    siblings: tuple[frozenset[int], ...]
    """The logical CPUs of each physical core; none if the kernel doesn't tell them."""
    libraries: Mapping[str, str]
    """Name in LIBRARIES → path, of installed ones."""
    numactl: str | None
    taskset: str | None
    huge_pages: str | None
    """Mode of transparent huge pages: always, madvise or never; None if unsupported."""
    isa_unusable: tuple[str, ...]
    """Instruction sets that the CPU reports but programs can't use."""
    cpu_quota: float | None
    """Cores that a control group allows; None for no limit."""
    cxx: str | None
    """The C++ compiler."""
    inductor_cache: Path
    """Where torch's inductor keeps what it has compiled: a private folder, which may not exist."""


def read_host_tools(prefix: Path = Path(sys.prefix)) -> HostTools:
    """Return this host's tools; also searches an interpreter's prefix for libraries."""
    folders = [prefix / "lib", *_library_folders(os.environ)]
    found = {name: _find(library.soname, folders) for name, library in LIBRARIES.items()}
    return HostTools(
        nodes=read_nodes(),
        sockets=read_sockets(),
        siblings=read_siblings(),
        libraries={name: path for name, path in found.items() if path},
        numactl=shutil.which("numactl"),
        taskset=shutil.which("taskset"),
        huge_pages=read_huge_pages(),
        isa_unusable=read_instruction_sets().unusable,
        cpu_quota=cpu_quota(),
        cxx=compiler(),
        inductor_cache=user_cache("inductor"),
    )


def read_nodes(system: Path = SYSTEM) -> dict[int, frozenset[int]]:
    """Return the logical CPUs of each NUMA node; if there are none, one node without known CPUs.

    A node of memory alone, such as CXL's, has no CPUs.
    """
    lists = sorted((system / "node").glob("node[0-9]*/cpulist"))
    nodes = {int(path.parent.name[4:]): _cpus_of_node(path.read_text()) for path in lists}
    return nodes or {0: frozenset()}


def read_sockets(system: Path = SYSTEM) -> dict[int, frozenset[int]]:
    """Return the logical CPUs of each socket; none if the kernel tells no socket of a CPU."""
    found = defaultdict[int, set[int]](set)
    for path in (system / "cpu").glob("cpu[0-9]*/topology/physical_package_id"):
        found[int(path.read_text())].add(int(path.parent.parent.name[3:]))
    return {socket: frozenset(cpus) for socket, cpus in sorted(found.items())}


def read_siblings(system: Path = SYSTEM) -> tuple[frozenset[int], ...]:
    """Return the logical CPUs of each physical core, that with the lowest one first."""
    lists = (system / "cpu").glob("cpu[0-9]*/topology/thread_siblings_list")
    return tuple(sorted({parse_cpus(path.read_text()) for path in lists}, key=min))


def read_huge_pages(path: Path = HUGE_PAGES) -> str | None:
    """Return the mode in brackets."""
    try:
        found = re.search(r"\[(\w+)\]", path.read_text())
    except OSError:
        return None
    return found.group(1) if found else None


def _cpus_of_node(text: str) -> frozenset[int]:
    return parse_cpus(text) if text.strip() else frozenset()


def _library_folders(environ: Mapping[str, str]) -> list[Path]:
    told = [Path(folder) for folder in environ.get("LD_LIBRARY_PATH", "").split(":") if folder]
    return [
        *told,
        *Path("/usr/lib").glob("*-linux-gnu"),
        Path("/usr/lib64"),
        Path("/usr/local/lib"),
    ]


def _find(soname: str, folders: Iterable[Path]) -> str | None:
    return next((str(f / soname) for f in folders if (f / soname).exists()), None)
