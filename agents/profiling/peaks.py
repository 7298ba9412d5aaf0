"""The machine's peaks: the fastest matrix product and copy found on a stack."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path

import torch

from agents.backends.protocol import TrainingBackend
from agents.profiling.names import PEAKS
from controller.contracts.profile import Peaks
from controller.contracts.result import Result, Validity
from controller.profiles.dates import date_of

SIZES = (1024, 1536, 2048)
"""Sizes of square matrices: large enough to use every core, small enough for caches."""
COPY_BYTES = 256 * 2**20
RUNS = 8
DTYPES = {"f32": torch.float32, "bf16": torch.bfloat16}


def run(backend: TrainingBackend, folder: Path, _: Path) -> Result:
    """Measure the peaks and write `peaks.json`."""
    found = Peaks(
        gemm_flops={name: gemm_flops(dtype) for name, dtype in DTYPES.items()},
        copy_bytes=copy_bytes(),
        measured_at=date_of(time.time()),
    )
    path = folder / PEAKS
    path.write_text(found.model_dump_json())
    return Result(
        validity=Validity.VALID,
        metrics={},
        environment=backend.environment(),
        artefacts={"peaks": str(path)},
    )


def gemm_flops(dtype: torch.dtype) -> float:
    """Return FLOPs a second of the fastest square product."""
    best = 0.0
    for size in SIZES:
        a, b = (torch.randn(size, size).to(dtype) for _ in range(2))
        out = torch.empty(size, size, dtype=dtype)
        seconds = _fastest(lambda a=a, b=b, out=out: torch.mm(a, b, out=out))  # type: ignore[misc]
        best = max(best, 2.0 * size**3 / seconds)
    return best


def copy_bytes() -> float:
    """Return bytes a second of a copy, read and written bytes together."""
    source, target = torch.ones(COPY_BYTES // 4), torch.empty(COPY_BYTES // 4)
    return 2 * COPY_BYTES / _fastest(lambda: target.copy_(source))


def _fastest(call: Callable[[], object]) -> float:
    """Return the least seconds of some calls, since disturbance only slows them down."""
    call()
    best = float("inf")
    for _ in range(RUNS):
        started = time.perf_counter()
        call()
        best = min(best, time.perf_counter() - started)
    return best
