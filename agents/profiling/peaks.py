"""The machine's peaks: the fastest matrix product, copy and update found on a stack."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from statistics import median

import torch

from agents.backends.protocol import TrainingBackend
from agents.host.disturbance import CpuWatch, environment_of, objections, validity_of
from agents.profiling.names import PEAKS
from controller.contracts.peaks import BEYOND_CACHES, COPY, RATES, UPDATE, Rate
from controller.contracts.policy import Policy
from controller.contracts.result import Result

SIZES = (1024, 1536, 2048)
"""Sizes of square matrices: large enough to use every core, small enough for caches."""
SMALL = 256
"""Size of the product that tells how long the larger ones take."""
LONGEST_S = 2.0
"""Longest call: a CPU without bf16 in hardware takes minutes for the largest product."""
PASSES = 5
"""Reads and writes of an update by SGD with momentum: three tensors read, two of them written."""
RUNS = 8
DTYPES = {"f32": torch.float32, "bf16": torch.bfloat16}


def run(backend: TrainingBackend, folder: Path, _: Path, policy: Policy) -> Result:
    """Measure the peaks and write `peaks.json`; the result says whether the machine was quiet."""
    watch = CpuWatch()
    with watch.timing():
        found = {name: gemm_flops(dtype) for name, dtype in DTYPES.items()}
        found[COPY] = copy_bytes()
        found[UPDATE] = update_bytes()
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


def copy_bytes() -> Rate:
    """Return bytes a second of a copy, read and written bytes together."""
    source, target = torch.ones(BEYOND_CACHES // 4), torch.empty(BEYOND_CACHES // 4)
    return _rate(2 * BEYOND_CACHES, lambda: target.copy_(source))


def update_bytes() -> Rate:
    """Return bytes a second of torch's fused update of one tensor, read and written together."""
    parameter = torch.nn.Parameter(torch.ones(BEYOND_CACHES // 4))
    parameter.grad = torch.ones_like(parameter)
    optimizer = torch.optim.SGD([parameter], lr=1e-3, momentum=0.9, fused=True)
    return _rate(PASSES * BEYOND_CACHES, optimizer.step)


def _rate(work: float, call: Callable[[], object]) -> Rate:
    """Return how much of its work a call does a second, in the best and the median of its runs."""
    call()
    seconds = []
    for _ in range(RUNS):
        started = time.perf_counter()
        call()
        seconds.append(time.perf_counter() - started)
    return Rate(best=work / min(seconds), median=work / median(seconds), runs=RUNS)
