"""A trace as torch.profiler writes one with a GPU, by hand: virtual, since no test has a GPU.

First come the ops of the CPU's threads, then what CUPTI tells in the order of its buffers: calls of
CUDA's runtime, kernels, copies, and arrows from calls to kernels. Microseconds.
"""

from __future__ import annotations

import json
from pathlib import Path

MAIN, AUTOGRAD, STREAM = 4242, 4300, 7
Record = dict[str, object]
STEPS = 2
STEP_US, SYNC_US, ITEM_US = 10_000.0, 6_000.0, 1_500.0
KERNELS_A_STEP = 40


def record(cat: str, name: str, ts: float, dur: float, tid: int | str, **args: object) -> Record:
    """Return an event that lasted."""
    known = {"ph": "X", "cat": cat, "name": name, "pid": MAIN, "tid": tid}
    return {**known, "ts": ts, "dur": dur, "args": args}


def step(number: int) -> tuple[list[Record], list[Record]]:
    """Return a step's ops, and what CUPTI tells of it.

    The main thread computes for 1.5 ms, waits for a scalar in an op and then for the device; the
    thread of autograd's engine works beside it.
    """
    at = 1_000.0 + number * STEP_US
    ops = [
        record("user_annotation", f"ProfilerStep#{number}", at, STEP_US, MAIN),
        record("cpu_op", "aten::linear", at + 100, 1_000, MAIN),
        record("cpu_op", "aten::addmm", at + 150, 900, MAIN),
        record("cpu_op", "aten::item", at + 1_500, ITEM_US + 100, MAIN),
        record("cpu_op", "aten::_local_scalar_dense", at + 1_520, ITEM_US + 60, MAIN),
        record("cpu_op", "AddmmBackward0", at + 1_500, 5_000, AUTOGRAD),
        record("cpu_op", "aten::mm", at + 1_600, 4_800, AUTOGRAD),
    ]
    launches = [
        record("cuda_runtime", "cudaLaunchKernel", at + 200 + 10 * n, 5, MAIN, correlation=n)
        for n in range(KERNELS_A_STEP)
    ]
    # In the order of CUPTI's buffers, which is not that of time.
    told = [
        record("cuda_runtime", "cudaDeviceSynchronize", at + 3_500, SYNC_US, MAIN),
        record("cuda_runtime", "cudaStreamSynchronize", at + 1_540, ITEM_US, MAIN),
        record("cuda_runtime", "cudaMemcpyAsync", at + 1_530, 8, MAIN),
        *launches,
        record("gpu_memcpy", "Memcpy DtoH (Device -> Pageable)", at + 3_020, 4, STREAM),
        *(
            record("kernel", "ampere_sgemm_128x64_tn", at + 400 + 200 * n, 190, STREAM, stream=7)
            for n in range(KERNELS_A_STEP)
        ),
        record("gpu_user_annotation", f"ProfilerStep#{number}", at + 400, 8_000, STREAM),
        {
            "ph": "s",
            "id": number,
            "pid": MAIN,
            "tid": MAIN,
            "ts": at,
            "cat": "ac2g",
            "name": "ac2g",
        },
        {"ph": "f", "id": number, "pid": 0, "tid": 7, "ts": at, "cat": "ac2g", "name": "ac2g"},
    ]
    return ops, told


def write_gpu_trace(path: Path) -> Path:
    """Write the trace of STEPS steps."""
    steps = [step(number) for number in range(STEPS)]
    about: list[Record] = [
        {"ph": "M", "name": "process_name", "pid": MAIN, "tid": 0, "args": {"name": "python"}},
        record("Trace", "PyTorch Profiler (0)", 900, 25_000, "PyTorch Profiler"),
    ]
    events = [*about, *(one for ops, _ in steps for one in ops)]
    events += [one for _, told in steps for one in told]
    known = {"schemaVersion": 1, "deviceProperties": [{"id": 0, "name": "virtual GPU"}]}
    started = {"baseTimeNanoseconds": 1_795_253_000 * 10**9}
    path.write_text(json.dumps({**known, "traceEvents": events, **started}))
    return path
