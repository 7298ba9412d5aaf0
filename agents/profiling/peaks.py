"""The machine's peaks: the fastest matrix product, copy and update found on a stack."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from pathlib import Path
from statistics import median
from typing import Final

import torch

from agents.backends.protocol import TrainingBackend
from agents.host.caches import last_level_bytes
from agents.host.disturbance import CpuWatch, environment_of, objections, validity_of
from agents.profiling.names import PEAKS
from controller.contracts.peaks import BEYOND_CACHES, COPY, RATES, UPDATE, Rate
from controller.contracts.policy import Policy
from controller.contracts.result import Result
from controller.platform.memory import available_bytes

SIZES = (1024, 1536, 2048)
"""Sizes of square matrices: large enough to use every core, small enough for caches."""
SMALL = 256
"""Size of the product that tells how long the larger ones take."""
LONGEST_S = 2.0
"""Longest call: a CPU without bf16 in hardware takes minutes for the largest product."""
PASSES = 5
"""Reads and writes of an update by SGD with momentum: three tensors read, two of them written."""
ARRAYS: Final = 3
"""Tensors of an update: parameter, gradient and momentum; a copy has fewer."""
TIMES_CACHES: Final = 4
"""Each array is so many times as large as all last-level caches, by the rule of STREAM (McCalpin,
https://www.cs.virginia.edu/stream/ref.html)."""
MEMORY_SHARE: Final = 0.25
"""Of the memory that is available: the most that arrays take beyond those of BEYOND_CACHES."""
RUNS = 8
DTYPES = {"f32": torch.float32, "bf16": torch.bfloat16}


def run(backend: TrainingBackend, folder: Path, _: Path, policy: Policy) -> Result:
    """Measure the peaks and write `peaks.json`; the result says whether the machine was quiet."""
    size = array_bytes(last_level_bytes(os.sched_getaffinity(0)), available_bytes())
    watch = CpuWatch()
    with watch.timing():
        found = {name: gemm_flops(dtype) for name, dtype in DTYPES.items()}
        found[COPY] = copy_bytes(size)
        found[UPDATE] = update_bytes(size)
    disturbed = objections(watch.timed, policy)
    path = folder / PEAKS
    path.write_bytes(RATES.dump_json(found))
    return Result(
        validity=validity_of((), disturbed, policy),
        reasons=disturbed,
        metrics={},
        environment={**backend.environment(), **environment_of(watch.timed)},
        artefacts={"peaks": str(path)},
    )


def gemm_flops(dtype: torch.dtype) -> Rate:
    """Return FLOPs a second of the fastest square product."""
    small = _product(SMALL, dtype)
    found = [_product(size, dtype) for size in sizes_at(small.best)] or [small]
    return max(found, key=lambda rate: rate.best)


def sizes_at(flops: float) -> list[int]:
    """Return the sizes that take no longer than LONGEST_S at so many FLOPs a second."""
    return [size for size in SIZES if 2.0 * size**3 <= LONGEST_S * flops]


def _product(size: int, dtype: torch.dtype) -> Rate:
    a, b = (torch.randn(size, size).to(dtype) for _ in range(2))
    out = torch.empty(size, size, dtype=dtype)
    return _rate(2.0 * size**3, lambda: torch.mm(a, b, out=out))


def array_bytes(caches: int, available: int) -> int:
    """Return the bytes of each array that is moved: beyond the caches, if memory allows.

    caches: bytes of all last-level caches; available: bytes of memory. It is BEYOND_CACHES, doubled
    as often as it takes, so that most machines have this size, and all have one of few.
    """
    size = BEYOND_CACHES
    while size < TIMES_CACHES * caches and 2 * size * ARRAYS <= MEMORY_SHARE * available:
        size *= 2
    return size


def copy_bytes(size: int) -> Rate:
    """Return bytes a second of a copy, read and written together. size: bytes of each array."""
    source, target = torch.ones(size // 4), torch.empty(size // 4)
    return _rate(2 * size, lambda: target.copy_(source), size)


def update_bytes(size: int) -> Rate:
    """Return bytes a second of torch's fused update of one tensor, read and written together.

    size: bytes of the tensor.
    """
    parameter = torch.nn.Parameter(torch.ones(size // 4))
    parameter.grad = torch.ones_like(parameter)
    optimizer = torch.optim.SGD([parameter], lr=1e-3, momentum=0.9, fused=True)
    return _rate(PASSES * size, optimizer.step, size)


def _rate(work: float, call: Callable[[], object], arrays: int | None = None) -> Rate:
    """Return how much of its work a call does a second, in the best and the median of its runs.

    arrays: bytes of each array that is moved.
    """
    call()
    seconds = []
    for _ in range(RUNS):
        started = time.perf_counter()
        call()
        seconds.append(time.perf_counter() - started)
    best, middle = work / min(seconds), work / median(seconds)
    return Rate(best=best, median=middle, runs=RUNS, array_bytes=arrays)
