"""Rules on how a step runs: threads, allocator, many small kernels, waiting, loading. Pure."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from typing import NamedTuple

from controller.contracts.advice import Remedy, Rule
from controller.contracts.counters import OtherMalloc, PhaseCounts
from controller.profiles.advising.claims import Claim, Seen, is_product, knob, setting, whole
from controller.profiles.advising.products import TINY_S
from controller.profiles.advising.work import above_copy
from controller.profiles.model import LOAD, KernelRow
from controller.profiles.operations import largest_bytes
from controller.profiles.parts import Part
from controller.profiles.sites import is_conversion
from controller.profiles.updates import is_update
from controller.profiles.validity import NOISE

SHORT_S = 20e-6
"""A kernel below it spends much of its time on being called."""
FRAGMENTED = 0.1
"""Share of the time in short kernels from which a step is fragmented."""
RULED = ("loss", "optimizer")
"""Phases with rules of their own."""
MAPPED_BYTES = 2**25
"""glibc maps and unmaps every block above it: mallopt(3), the most that M_MMAP_THRESHOLD grows to
by itself."""
MANY_FAULTS = 1000.0
"""Page faults a step, 4 MiB: models that reuse their memory have a few dozen."""
NO_PHASE = "no phase"
IDLE = 0.25
"""Share of the threads' time in a phase from which they are told to sleep there."""
SCALES = 0.6
"""The least share that a long product saves of what further threads can save at most. Whole steps,
which also have work that doesn't scale, saved 0.55 to 1.0 of it: three models on an EPYC with
AVX-512, and two on one without."""
CANDIDATES = 3
"""Candidates for fusing that are named."""


def threads(seen: Seen) -> Claim | None:
    """Fewer threads than cores, or more than logical processors or a quota of CPUs allow.

    At most, all that computes scales with the threads that run at once; long products at least to a
    part, where cores are missing. Of a part of a host's logical processors, nothing tells which
    share a core.
    """
    environment = seen.origin.environment
    has, cores, own = seen.origin.threads, environment.get("cores"), environment.get("affinity")
    if not isinstance(cores, int) or not has:
        return None
    most = len(own) if isinstance(own, tuple) and own else cores
    quota = _quota(environment)
    largest = min(max(cores, most), quota)  # `affinity` may be of one thread that OpenMP has bound
    usable = largest if quota < has <= max(cores, most) else min(cores, most, quota)
    if usable <= has <= largest:
        return None
    remedy = setting(f"run {usable} threads")
    if "threads" in seen.knobs:
        remedy = knob("threads", usable)
    found = seen.where(lambda part: bool(part.row.place.op) and part.row.place.phase != LOAD)
    high = 1 - min(has, usable) / max(has, usable)
    shared = _may_share_cores(environment, cores, most)
    scales = has < usable and not shared
    long = [i for i in found if _is_long_product(seen.parts[i])] if scales else []
    shares = whole(found, high=high) | whole(long, low=SCALES * high, high=high)
    there = f"logical processors {most}" if shared else f"cores {usable}"
    there = f"CPU quota {quota}" if usable == quota else there
    return Claim(Rule.THREADS, f"threads {has}, {there}", remedy, shares)


def _quota(environment: Mapping[str, object]) -> int:
    """Return how many threads a quota lets run at once; beyond it, the kernel stops all of them."""
    quota = environment.get("cpu_quota")
    return max(1, int(quota)) if isinstance(quota, int | float) else sys.maxsize


def _may_share_cores(environment: Mapping[str, object], cores: int, usable: int) -> bool:
    """Return whether usable logical processors, a part of the host's, may be of fewer cores."""
    logical = environment.get("logical_cpus")
    return isinstance(logical, int) and cores < logical and usable < logical


def _is_long_product(part: Part) -> bool:
    return is_product(part) and part.seconds >= TINY_S * part.row.calls


def idle_threads(seen: Seen) -> Claim | None:
    """Phases in which threads sleep while others work; at most, all share the work evenly.

    OpenMP's threads spin before they sleep, libgomp's for milliseconds after each parallel region,
    and CPU time has that as work: threads idle for as long as is told here, or longer. Nothing is
    told where other processes took the cores.
    """
    counters, has = seen.summary.counters, seen.origin.threads
    logical = seen.origin.environment.get("affinity")
    cores = min(has or 1, len(logical) if isinstance(logical, tuple) and logical else has or 1)
    if cores < 2 or counters is None or counters.notes:
        return None
    found = {p.phase: idle for p in counters.phases if (idle := _idle(seen, p, cores))}
    if not found:
        return None
    core_s = {name: idle.share * cores * idle.seconds for name, idle in found.items()}
    most = max(core_s, key=lambda name: core_s[name])
    told = (
        f"threads sleep for {sum(core_s.values()) * 1000:.3g} ms of a core in a step, most in "
        f"{most or NO_PHASE}, where {(1 - found[most].share) * cores:.1f} of {cores} work; those "
        "that spin count as working"
    )
    remedy = setting(
        "give all threads work there: larger batches, or operators that use every thread"
    )
    parts = seen.where(lambda part: part.row.place.phase in found and not part.row.place.waits)
    shares = {
        i: (0.0, min(found[seen.parts[i].row.place.phase].share, 1 - 1 / cores)) for i in parts
    }
    return Claim(Rule.IDLE_THREADS, told, remedy, shares)


class _Idle(NamedTuple):
    """Threads that sleep in a phase: the share of their time, and of how many seconds."""

    share: float
    seconds: float


def _idle(seen: Seen, phase: PhaseCounts, cores: int) -> _Idle | None:
    """Return how threads sleep in a phase, without calls that wait; None if hardly, or to load."""
    waits = seen.where(lambda part: part.row.place.waits and part.row.place.phase == phase.phase)
    working_s = phase.seconds - seen.seconds(waits)
    if working_s <= 0 or phase.phase == LOAD:
        return None
    share = 1 - (phase.user_s + phase.system_s) / (cores * working_s)
    return _Idle(share, working_s) if share >= IDLE else None


def malloc(seen: Seen) -> Claim | None:
    """Large tensors from a glibc that unmaps them, so that each is faulted in again.

    What was compared with another malloc in turns decides, unless its interval is too wide. Where
    page faults were not counted, at most all is saved that is above copying the inputs.
    """
    if seen.knobs.get("malloc") != "glibc":
        return None
    counters = seen.summary.counters
    other = counters.other_malloc if counters else None
    if other and other.low is not None and other.high is not None:
        if other.low > 1:
            return _in_turns(seen, other, other.low, other.high)
        if other.high <= 1 + NOISE and not other.notes:
            return None
    if counters:
        return _faulting(seen, Rule.MALLOC, knob("malloc", "glibc-tuned"))
    found = seen.where(lambda part: _is_large(part) and not is_product(part))
    told = f"glibc unmaps blocks above 32 MiB; {seen.counted(found)} calls are on larger tensors"
    shares = {i: (0.0, above_copy(seen, seen.parts[i])) for i in found}
    return Claim(Rule.MALLOC, told, knob("malloc", "glibc-tuned"), shares)


def _in_turns(seen: Seen, other: OtherMalloc, low: float, high: float) -> Claim:
    """Steps that take low to high times as long as with another malloc.

    Nothing is saved at least where the comparison was disturbed.
    """
    told = (
        f"in turns, a step takes {other.times:.2f} times as long with glibc as with "
        f"{other.malloc} ({low:.2f}–{high:.2f}, {other.pairs} pairs)"
    )
    least = 0.0 if other.notes else 1 - 1 / low
    shares = whole(seen.in_step, low=least, high=1 - 1 / high)
    return Claim(Rule.MALLOC, told, knob("malloc", "jemalloc"), shares)


def page_faults(seen: Seen) -> Claim | None:
    """Memory that is faulted in again in every step, though malloc is not glibc's untuned one.

    The launcher refuses huge pages with tcmalloc, so another malloc is advised, which keeps pages.
    """
    if (malloc := seen.knobs.get("malloc")) == "glibc":
        return None
    remedy = setting("keep tensors for the next step instead of allocating them anew")
    if malloc == "tcmalloc":
        remedy = knob("malloc", "jemalloc")
    elif seen.knobs.get("huge_pages") is False:
        remedy = knob("huge_pages", value=True)
    return _faulting(seen, Rule.PAGE_FAULTS, remedy)


def _faulting(seen: Seen, rule: Rule, remedy: Remedy) -> Claim | None:
    """Phases with many page faults, as counted.

    At most the kernel's CPU time is saved, if one thread has it; at least nothing, since the kernel
    has other work, too.
    """
    counters = seen.summary.counters
    found = [
        phase
        for phase in (counters.phases if counters else ())
        if phase.minor_faults >= MANY_FAULTS and phase.seconds > 0
    ]
    most = {phase.phase: min(1.0, phase.system_s / phase.seconds) for phase in found}
    parts = seen.where(lambda part: part.row.place.phase in most)
    told = (
        f"{sum(phase.minor_faults for phase in found):.0f} page faults a step in "
        f"{', '.join(phase.phase or NO_PHASE for phase in found)}; the kernel takes "
        f"{sum(phase.system_s for phase in found) * 1000:.3g} ms of CPU time there"
    )
    shares = {i: (0.0, most[seen.parts[i].row.place.phase]) for i in parts}
    return Claim(rule, told, remedy, shares)


def _is_large(part: Part) -> bool:
    """Return whether one of a kernel's tensors is large; views have no bytes."""
    row = part.row
    if not isinstance(row, KernelRow) or row.bytes is None or is_update(row.place.kernel):
        return False
    return largest_bytes(row.place.kernel, row.place.dims, row.place.dtypes) > MAPPED_BYTES


def fragmentation(seen: Seen) -> Claim | None:
    """Much of the step in short kernels that are no products; at most their time.

    Loss and optimizer have rules of their own. Stack torch-compile compiles the model's forward and
    backward pass, and leaves all else as it is.
    """
    is_torch = seen.origin.stack == "torch"
    found = seen.where(lambda part: _is_short(part) and (_in_model(part) or not is_torch))
    step_s = seen.seconds(seen.in_step)
    if not found or seen.seconds(found) < FRAGMENTED * step_s:
        return None
    kernels = seen.where(lambda part: isinstance(part.row, KernelRow) and bool(part.row.place.op))
    told = (
        f"{seen.calls(kernels) / step_s / 1000:.1f} kernels per ms; those of the model under 20 µs "
        f"take {seen.seconds(found) / step_s:.0%} of the time{_candidates(seen)}"
    )
    remedy = Remedy(kind="stack", value="torch-compile") if is_torch else setting("fuse them")
    return Claim(Rule.FRAGMENTATION, told, remedy, whole(found))


def _is_short(part: Part) -> bool:
    row = part.row
    if not isinstance(row, KernelRow) or not row.place.op or is_product(part):
        return False
    if row.place.phase in RULED or is_conversion(row):  # to be left out, not to be fused
        return False
    return row.self_s < SHORT_S * row.calls


def _in_model(part: Part) -> bool:
    """Return whether a part is in the model's passes; a loss' gradients are in no module."""
    place = part.row.place
    return place.phase == "forward" or (place.phase == "backward" and bool(place.module))


def _candidates(seen: Seen) -> str:
    """Return where the model's kernels that are no products move most bytes, in words."""
    moved: dict[str, float] = {}
    for part in seen.parts:
        row = part.row
        if not isinstance(row, KernelRow) or is_update(row.place.kernel):  # fused already
            continue
        if row.bytes and not is_product(part) and row.place.phase not in RULED:
            place = row.place.module or row.place.phase or row.place.op
            moved[place] = moved.get(place, 0.0) + row.calls * row.bytes
    first = sorted(moved.items(), key=lambda item: -item[1])[:CANDIDATES]
    if not first:
        return ""
    return "; most bytes to fuse: " + ", ".join(f"{name} {b / 1e6:.1f} MB" for name, b in first)


def waiting(seen: Seen) -> Claim | None:
    """Calls that wait: for another thread, a process or a clock."""
    found = seen.where(lambda part: part.row.place.waits and part.row.place.phase != LOAD)
    names = sorted({seen.parts[i].row.place.kernel for i in found})
    told = f"{seen.counted(found)} calls wait: {', '.join(names[:CANDIDATES])}"
    remedy = setting("do other work meanwhile, or don't wait in the step")
    return Claim(Rule.WAITING, told, remedy, whole(found))


def loading(seen: Seen) -> Claim | None:
    """Loading a batch while nothing is computed; at most all of it is hidden."""
    found = seen.where(lambda part: part.row.place.phase == LOAD)
    remedy = setting("load batches beside the step, or decode faster")
    if seen.knobs.get("loader_workers") == 0:
        remedy = knob("loader_workers", 1)
    elif seen.knobs.get("cache") == "resized":  # which decodes each image once
        remedy = setting("load batches beside the step")
    elif seen.has_other("decoder", "turbojpeg"):
        remedy = knob("decoder", "turbojpeg")
    return Claim(Rule.LOADING, "nothing is computed while a batch is loaded", remedy, whole(found))
