"""How to start a worker process, from knobs and host facts: a command prefix and an environment.
Pure."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from functools import partial

from agents.host.compiler import inductor_environ
from agents.host.cpu_lists import format_cpus, parse_cpus
from agents.host.rank_placement import CannotPlace, place_ranks
from agents.host.tools import HUGE_PAGES, LIBRARIES, HostTools
from controller.contracts.base import Scalar
from controller.contracts.device import Device
from controller.contracts.errors import WorkerFault
from controller.contracts.result import Blame, Failure
from controller.platform.inherited import inherited
from controller.platform.programs import PYTHON_MODES

GLIBC_KEEPS = (
    "glibc.malloc.mmap_threshold=4294967296",
    "glibc.malloc.trim_threshold=8589934592",
)
"""Keeps freed blocks: by default glibc unmaps every tensor over 32 MiB, and the page faults of
mapping it again can double a kernel's time."""
GLIBC_HUGE = ("glibc.malloc.hugetlb=1",)
JEMALLOC_KEEPS = "dirty_decay_ms:-1,muzzy_decay_ms:-1,oversize_threshold:0"
"""The same for jemalloc, which by default returns blocks over 8 MiB at once."""
JEMALLOC_HUGE = "thp:always"
KMP_BLOCKTIME_MS = "1"
"""Milliseconds that threads of Intel's (LLVM's) OpenMP runtime spin after a parallel region; 200 ms
by default, 1 ms in Intel's MLPerf Training v3.0 entry."""
WITHOUT_AMX = {"ONEDNN_MAX_CPU_ISA": "AVX512_CORE_FP16"}
"""Everything that CPUs with AMX have, except AMX (oneDNN, CPU dispatcher control)."""
SAID_CHARACTERS = 80
"""Most characters of a CPU list that an error repeats."""


@dataclass(frozen=True, slots=True)
class Launch:
    """How to start a worker."""

    prefix: tuple[str, ...]
    """Prefix of the command: numactl or taskset with options, or nothing."""
    environ: dict[str, str]


@dataclass(frozen=True, slots=True)
class LaunchedRank:
    """Where a rank of a worker runs; it has the worker's environment."""

    prefix: tuple[str, ...]
    """As of Launch."""
    cores: tuple[int, ...]


def launch_of(
    caller: Mapping[str, str], knobs: Mapping[str, Scalar], device: Device, host: HostTools
) -> Launch:
    """Return how a worker starts; only knobs affect its speed.

    caller: its environment, of which little is handed down. knobs: every knob of the device's
    launch manifest. Raises WorkerFault, blame user, for settings that this host can't give.
    """
    cores = _cores(str(knobs["cores"]), device, host)
    environ = inherited(caller) | PYTHON_MODES | {"PYTHONUNBUFFERED": "1"}
    environ["OMP_NUM_THREADS"] = str(_threads(knobs, cores, host))
    malloc, openmp = str(knobs["malloc"]), str(knobs["openmp"])
    environ |= _allocator(malloc, bool(knobs["huge_pages"]), host)
    environ |= _openmp(openmp, str(knobs["thread_binding"]))
    environ |= onednn_environ(host.isa_unusable)
    environ |= inductor_environ(host.cxx, host.inductor_cache)
    if preloaded := [_library(name, host) for name in (malloc, openmp) if name in LIBRARIES]:
        environ["LD_PRELOAD"] = ":".join(preloaded)
    prefix = _placement(str(knobs["numa"]), cores, device, host)
    return Launch(prefix, environ)


def launched_ranks(
    knobs: Mapping[str, Scalar], device: Device, host: HostTools
) -> tuple[LaunchedRank, ...]:
    """Return where each rank of a worker runs; raises as launch_of."""
    numa, cores = str(knobs["numa"]), _cores(str(knobs["cores"]), device, host)
    return tuple(
        LaunchedRank(_placement(numa, frozenset(own), device, host, cores), own)
        for own in _rank_cores(knobs, cores, host)
    )


def _rank_cores(
    knobs: Mapping[str, Scalar], cores: frozenset[int], host: HostTools
) -> tuple[tuple[int, ...], ...]:
    ranks, threads = int(knobs["ranks"]) // int(knobs["hosts"]), int(knobs["threads"])
    place = partial(place_ranks, cores, host.sockets, host.nodes, host.siblings, ranks)
    try:
        placed = place(threads)
        if not threads and (most := _within_quota(len(placed[0]), ranks, host)) < len(placed[0]):
            return place(most)
        return placed
    except CannotPlace as refused:
        raise _refusal(refused.seen, refused.remedy) from None


def onednn_environ(isa_unusable: Collection[str]) -> dict[str, str]:
    """Return the environment that keeps oneDNN from using AMX if AMX is unusable, else nothing."""
    return WITHOUT_AMX if "amx_tile" in isa_unusable else {}


def while_watched(knobs: Mapping[str, Scalar], host: HostTools) -> Mapping[str, Scalar]:
    """Return the settings of a profiled worker: jemalloc in place of glibc, if it is installed.

    glibc places torch.profiler's records into memory freed by tensors; then the next tensor no
    longer fits, and every step maps new pages: 17,000 for RetinaNet, a fifth of its time.
    """
    breaks_up = str(knobs["malloc"]).startswith("glibc")
    return {**knobs, "malloc": "jemalloc"} if breaks_up and "jemalloc" in host.libraries else knobs


def _cores(wanted: str, device: Device, host: HostTools) -> frozenset[int]:
    """Return the logical CPUs to run on, a subset of the device's."""
    if wanted == "all":
        return device.host_cores
    if wanted == "physical":
        # The first one of a core may be outside the device's, as in a cpuset.
        own = (siblings & device.host_cores for siblings in host.siblings)
        return frozenset(map(min, filter(None, own))) or device.host_cores
    try:
        cores = parse_cpus(wanted)
    except ValueError:
        raise _refusal(
            f"cores={_short(wanted)} is not a list of CPUs",
            "Write all, physical or a list such as 0-3,8.",
        ) from None
    if beyond := cores - device.host_cores:
        raise _refusal(
            f"cores={_short(wanted)}: device {device.id} has no CPU {_short(format_cpus(beyond))}",
            f"Choose among {format_cpus(device.host_cores)}.",
        )
    return cores


def _threads(knobs: Mapping[str, Scalar], cores: frozenset[int], host: HostTools) -> int:
    """Return the threads of the process that trains, or of each rank."""
    if int(knobs["ranks"]) > 1:
        return len(_rank_cores(knobs, cores, host)[0])
    wanted = int(knobs["threads"])
    if wanted > len(cores) > 0:
        raise _refusal(
            f"threads={wanted} is more than the {len(cores)} cores to run on",
            "Lower the knob threads, or add cores with the knob cores.",
        )
    return wanted or _within_quota(len(cores), 1, host)


def _within_quota(threads: int, ranks: int, host: HostTools) -> int:
    """Return how many threads each rank gets by default: beyond its CPU quota, the kernel stops all
    of them in every period."""
    if host.cpu_quota is not None:
        threads = min(threads, int(host.cpu_quota) // ranks)
    return max(1, threads)


def _allocator(malloc: str, huge_pages: bool, host: HostTools) -> dict[str, str]:
    if huge_pages and host.huge_pages not in ("always", "madvise"):
        raise _refusal(
            f"huge_pages: transparent huge pages are {host.huge_pages or 'not in this kernel'}",
            f"As root, run `echo madvise > {HUGE_PAGES}`.",
        )
    if malloc == "jemalloc":
        return {"MALLOC_CONF": ",".join([JEMALLOC_KEEPS, *([JEMALLOC_HUGE] if huge_pages else [])])}
    if malloc == "tcmalloc":
        if huge_pages:
            raise _refusal(
                "huge_pages: tcmalloc does not use them",
                "Set malloc to glibc, glibc-tuned or jemalloc.",
            )
        return {}
    kept = GLIBC_KEEPS if malloc == "glibc-tuned" else ()
    tunables = ":".join((*kept, *(GLIBC_HUGE if huge_pages else ())))
    return {"GLIBC_TUNABLES": tunables} if tunables else {}


def _openmp(runtime: str, binding: str) -> dict[str, str]:
    environ = {} if runtime == "gnu" else {"KMP_BLOCKTIME": KMP_BLOCKTIME_MS}
    if binding != "none":
        environ |= {"OMP_PROC_BIND": binding, "OMP_PLACES": "threads"}
    return environ


def _placement(
    numa: str,
    cores: frozenset[int],
    device: Device,
    host: HostTools,
    of_run: frozenset[int] = frozenset(),
) -> tuple[str, ...]:
    """Return the command that binds a process to cores, and its memory to their NUMA nodes.

    of_run: the cores of all processes, over whose nodes memory is interleaved.
    """
    if numa != "none" and len(host.nodes) > 1:
        bind = numa == "bind"
        near = cores if bind else cores | of_run
        nodes = format_cpus(node for node, cpus in host.nodes.items() if cpus & near)
        memory = f"--membind={nodes}" if bind else f"--interleave={nodes}"
        command = _program("numactl", host.numactl, "Run `apt-get install numactl`.")
        return (command, f"--physcpubind={format_cpus(cores)}", memory)
    if cores != device.host_cores:
        command = _program("taskset", host.taskset, "Run `apt-get install util-linux`.")
        return (command, "--cpu-list", format_cpus(cores))
    return ()


def _program(name: str, path: str | None, remedy: str) -> str:
    if path is None:
        raise _refusal(f"{name} is not installed", remedy)
    return path


def _library(name: str, host: HostTools) -> str:
    if name not in host.libraries:
        library = LIBRARIES[name]
        raise _refusal(f"{library.soname} is not installed", library.remedy)
    return host.libraries[name]


def _short(text: str) -> str:
    return text if len(text) <= SAID_CHARACTERS else f"{text[:SAID_CHARACTERS]}…"


def _refusal(seen: str, remedy: str) -> WorkerFault:
    message = f"cannot start the worker: {seen}. {remedy}"
    return WorkerFault(Failure(blame=Blame.USER, kind="launch", message=message))
