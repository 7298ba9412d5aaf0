"""Paired comparison of an operator with a baseline, within one process."""

from __future__ import annotations

import asyncio
import ctypes
import os
import platform
import time
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from statistics import median, quantiles

import torch

from agents.backends.own_speed import product_flops
from agents.host.cpu import read_cpuinfo
from agents.host.cpu_watch import CpuWatch
from agents.host.disturbance import OWN_SPEED, objections, speed_objections, validity_of
from agents.pairing.interleave import ComparisonState, Plan, interleave
from controller.contracts.kernels import KernelDraw, KernelFigures, KernelRow
from controller.contracts.pair import Pair
from controller.contracts.policy import Policy
from controller.contracts.units import Unit
from controller.stats.pairs import times_better
from kernels import build
from kernels.bench.case import Case, Differentiated, Direction, Work

BATCH_S = 0.15
COPIES = 11
JUDGED_COPY_S = 1e-3
"""A shorter copy is not judged: it stays in the caches, and the call itself is a part of it."""
BESIDE = "before and after what was timed"


@dataclass(frozen=True, slots=True)
class TimedWork:
    """A Side that runs one function; the first run of each batch is not counted."""

    work: Work
    direction: Direction

    async def run_batch(self, steps: int) -> tuple[float, ...]:
        """See Side.run_batch."""
        self.work()
        return tuple(seconds_in(self.direction, self.work) for _ in range(steps))


@dataclass(frozen=True, slots=True)
class Identity:
    """The identity of a row."""

    op: str
    dtype: str
    variant: str
    direction: Direction = "both"
    baseline_digest: str | None = None
    """Of the file of an implementation that the user brings."""


def compare(
    identity: Identity,
    case: Case,
    baseline: str,
    other: Work,
    plan: Plan,
    policy: Policy,
    watch: CpuWatch,
) -> KernelRow:
    """Compare a case's kernel with other work; the first run of each is not counted.

    baseline: what the other work is called.
    policy: by which all that the watch has timed, this included, is VALID, DISTURBED or INVALID.
    """
    for _ in range(2):
        other()
        case.kernel()
    moved, direction = case.bytes_in(identity.direction), identity.direction
    before = conditions(moved)
    with watch.timing():
        sides = TimedWork(other, direction), TimedWork(case.kernel, direction)
        state = asyncio.run(interleave(*sides, plan))
    around = (before, conditions(moved))
    disturbed = (*objections(watch.timed, policy), *own_speed_objections(around, moved, policy))
    figures = _figures(state, case, moved, around, other)
    draw = _draw(state, figures, disturbed, policy)
    better = times_better(state.ratio, Unit.SECONDS)
    return KernelRow(
        op=identity.op,
        dtype=identity.dtype,
        shape=case.shape,
        variant=identity.variant,
        baseline=baseline,
        baseline_digest=identity.baseline_digest,
        direction=direction,
        library=build.digest(),
        ratio_low=better.low if better.bounded else None,
        ratio_high=better.high if better.bounded else None,
        pairs=better.pairs,
        bytes=moved,
        **dict(figures),
        threads=torch.get_num_threads(),
        torch=torch.__version__,
        malloc=os.environ.get("GLIBC_TUNABLES", os.environ.get("LD_PRELOAD", "")),
        cpu=read_cpuinfo().get("model name", platform.machine()),
        draws=(draw,),
    )


def _figures(
    state: ComparisonState, case: Case, moved: int, around: Sequence[Conditions], other: Work
) -> KernelFigures:
    """Return what was measured, and the conditions before and after it."""
    theirs, mine = percentiles(steady(state))
    copy_s = median(s for one in around for s in one.copies_s)
    memory = extra_memory(case.kernel)
    return KernelFigures(
        ratio=times_better(state.ratio, Unit.SECONDS).value,
        gbps=moved / mine[1] / 1e9,
        copy_gbps=moved / copy_s / 1e9,
        baseline_gbps=moved / theirs[1] / 1e9,
        matmul_gflops=median(one.gflops for one in around),
        p20_s=mine[0],
        p50_s=mine[1],
        p80_s=mine[2],
        baseline_p20_s=theirs[0],
        baseline_p50_s=theirs[1],
        baseline_p80_s=theirs[2],
        memory_bytes=memory,
        baseline_memory_bytes=extra_memory(other),
        memory_share=memory / case.largest_bytes,
    )


@dataclass(frozen=True, slots=True)
class Conditions:
    """What the machine can do at a minute, of work that is always the same."""

    copies_s: tuple[float, ...]
    gflops: float
    """10⁹ FLOPs a second of an fp32 matrix product."""


def conditions(moved_bytes: int) -> Conditions:
    """Time copies that read and write so many bytes together, and matrix products."""
    source = torch.zeros(max(1, moved_bytes // 2), dtype=torch.uint8)
    target = torch.zeros_like(source)
    return Conditions(
        tuple(seconds(lambda: target.copy_(source)) for _ in range(COPIES)),
        product_flops("fp32") / 1e9,
    )


def own_speed_objections(
    around: Sequence[Conditions], moved_bytes: int, policy: Policy
) -> tuple[str, ...]:
    """Return that the machine's own speed changed from before to after, if it did.

    The quickest copies are compared: one that was interrupted says nothing of the speed.
    """
    products = speed_objections([one.gflops for one in around], BESIDE, policy)
    quickest = [min(one.copies_s) for one in around]
    most = policy.host.most_speed_change if policy.host else None
    if most is None or min(quickest) < JUDGED_COPY_S or min(quickest) >= (1 - most) * max(quickest):
        return products
    slow, fast = (moved_bytes / copy_s / 1e9 for copy_s in (max(quickest), min(quickest)))
    allowed = f"policy {policy.name} allows {most:.0%} less than the fastest"
    return (
        *products,
        f"{OWN_SPEED}: a copy ran at {slow:.4g} to {fast:.4g} GB/s {BESIDE}; {allowed}",
    )


def _draw(
    state: ComparisonState, figures: KernelFigures, disturbed: tuple[str, ...], policy: Policy
) -> KernelDraw:
    """Return a measurement, and what disturbed it."""
    return KernelDraw(
        measured_at=datetime.now(UTC),
        ratios=tuple(median(pair.a) / median(pair.b) for pair in steady(state)),
        **dict(figures),
        validity=validity_of((), disturbed, policy),
        reasons=disturbed,
    )


def seconds_in(direction: Direction, work: Work) -> float:
    """Return the seconds of one run, or of one pass of it.

    Freeing a pass's results isn't timed. autograd frees what a forward pass has kept while it goes
    back, which is a part of that pass. Raises TypeError for a pass of work without a gradient.
    """
    if direction == "both":
        return seconds(work)
    if not isinstance(work, Differentiated):
        raise TypeError(f"work without a gradient has no {direction} pass of its own")
    began_s = time.perf_counter()
    made = work.forward()
    ended_s = time.perf_counter()
    if direction == "forward":
        return ended_s - began_s
    began_s = time.perf_counter()
    gradients = work.backward(made)
    ended_s = time.perf_counter()
    del gradients
    return ended_s - began_s


def seconds(work: Work) -> float:
    """Return the seconds of one run."""
    started = time.perf_counter()
    work()
    return time.perf_counter() - started


def extra_memory(work: Work) -> int:
    """Return the peak increase of resident memory during one run, in bytes.

    Unused memory is first returned to the system, so that the run must map what it needs.
    """
    work()
    ctypes.CDLL(None).malloc_trim(0)
    Path("/proc/self/clear_refs").write_text("5")  # resets the peak
    before = _status("VmRSS")
    work()
    return max(0, _status("VmHWM") - before)


def _status(name: str) -> int:
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith(f"{name}:"):
            return int(line.split()[1]) * 1024
    raise OSError(f"/proc/self/status has no {name}")


def steady(state: ComparisonState) -> Sequence[Pair]:
    """Return the pairs behind those of warming up."""
    return state.pairs[state.ratio.warmup_pairs :]


def percentiles(pairs: Sequence[Pair]) -> tuple[list[float], list[float]]:
    """Return p20, p50, p80 of all samples of both sides, seconds."""
    sides = [s for p in pairs for s in p.a], [s for p in pairs for s in p.b]
    theirs, mine = (quantiles(side, n=10, method="inclusive") for side in map(_two, sides))
    return [theirs[at] for at in (1, 4, 7)], [mine[at] for at in (1, 4, 7)]


def _two(samples: list[float]) -> list[float]:
    return samples if len(samples) > 1 else samples * 2
