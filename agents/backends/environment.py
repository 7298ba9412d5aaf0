"""The environment of a worker on any torch stack, as the process itself sees it."""

from __future__ import annotations

import os
import platform
import re
import sys
import tempfile
from collections.abc import Callable
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

import torch

from controller.contracts.result import Environment
from kernels.library import capabilities

_ALLOCATORS = re.compile(r"/(libjemalloc|libtcmalloc)[^/]*$")
_OPENMP = re.compile(r"/(libgomp|libiomp5|libomp)[-.][^/]*$")
_SETTINGS = ("OMP_", "KMP_", "GOMP_", "MALLOC_", "GLIBC_TUNABLES", "ONEDNN_")


def torch_environment() -> Environment:
    """Return the facts for every result of a torch stack."""
    onednn, isa = onednn_said(_call_onednn)
    loaded = _loaded_libraries()
    kernels = capabilities()
    return {
        "python": platform.python_version(),
        "torch": torch.__version__,
        "packages": _packages(),
        "onednn": onednn,
        "onednn_isa": isa,
        "torch_isa": torch.backends.cpu.get_cpu_capability(),
        "threads": torch.get_num_threads(),
        "interop_threads": torch.get_num_interop_threads(),
        "affinity": tuple(sorted(os.sched_getaffinity(0))),
        "numa_policy": _numa_policy(),
        "malloc": preloaded_malloc() or " ".join(platform.libc_ver()),
        "openmp": tuple(sorted({Path(path).name for path in loaded if _OPENMP.search(path)})),
        "settings": tuple(f"{k}={v}" for k, v in sorted(os.environ.items()) if _is_setting(k)),
        "huge_page_bytes": _huge_page_bytes(),
        "kernels": kernels.variant,
        "kernels_reason": kernels.reason,
    }


def preloaded_malloc() -> str | None:
    """Return the file name of the malloc that takes the place of the C library's; None: its own."""
    found = (Path(path).name for path in _loaded_libraries() if _ALLOCATORS.search(path))
    return next(found, None)


def onednn_said(call: Callable[[], None]) -> tuple[str | None, str | None]:
    """Return oneDNN's version and instruction set, from the verbose output of a call.

    Captures standard output, since oneDNN prints with the C library.
    """
    kept = os.dup(1)
    with tempfile.TemporaryFile() as file:
        os.dup2(file.fileno(), 1)
        try:
            call()
        finally:
            os.dup2(kept, 1)
            os.close(kept)
        file.seek(0)
        said = file.read().decode(errors="replace")
    found = (re.search(r"info,oneDNN v([\w.]+)", said), re.search(r"info,cpu,isa:(.+)", said))
    onednn, isa = (match.group(1).strip() if match else None for match in found)
    return onednn, isa


def _call_onednn() -> None:
    mkldnn = torch.backends.mkldnn
    with mkldnn.verbose(mkldnn.VERBOSE_ON):  # type: ignore[no-untyped-call]
        torch.ones(1, 16, 2, 2).to_mkldnn().to_dense()


def _packages() -> tuple[str, ...]:
    """Return NAME==VERSION of the imported packages."""
    found = []
    for name in {module.partition(".")[0] for module in sys.modules}:
        try:
            found.append(f"{name}=={version(name)}")
        except PackageNotFoundError:
            continue  # Python's own, ours, or named differently from its package
    return tuple(sorted(found))


def _loaded_libraries() -> set[str]:
    lines = Path("/proc/self/maps").read_text().splitlines()
    return {line.split(maxsplit=5)[5] for line in lines if ".so" in line}


def _numa_policy() -> str | None:
    """Return the memory policy the process started with; None where the kernel has no NUMA."""
    try:
        first = Path("/proc/self/numa_maps").read_text().splitlines()[0]
    except (OSError, IndexError):
        return None
    return first.split()[1]


def _huge_page_bytes() -> int | None:
    """Return the bytes of the process in transparent huge pages."""
    try:
        text = Path("/proc/self/smaps_rollup").read_text()
    except OSError:
        return None
    found = re.search(r"AnonHugePages:\s+(\d+) kB", text)
    return int(found.group(1)) * 1024 if found else None


def _is_setting(variable: str) -> bool:
    return variable.startswith(_SETTINGS)
