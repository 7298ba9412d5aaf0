"""The environment a worker process starts with: pure, from knobs to variables."""

from __future__ import annotations

from collections.abc import Mapping

from controller.contracts.base import Scalar
from controller.contracts.device import Device

GLIBC_TUNED = "glibc.malloc.mmap_threshold=4294967296:glibc.malloc.trim_threshold=8589934592"
"""Keeps freed blocks: by default glibc unmaps every tensor over 32 MiB, and the page faults of
mapping it anew can double a kernel's time."""

_NOT_INHERITED = (
    *("RAY_", "OMP_", "KMP_", "GOMP_", "GLIBC_TUNABLES", "LD_PRELOAD", "MALLOC_"),
    *("MKL_", "DNNL_", "ONEDNN_", "OPENBLAS_", "TORCH", "PYTORCH_", "ATEN_"),
)
"""Prefixes of variables that change how fast a worker runs, or that only concern Ray."""


def launch_environment(
    inherited: Mapping[str, str], knobs: Mapping[str, Scalar], device: Device
) -> dict[str, str]:
    """Return a worker's environment; what influences speed comes from knobs alone."""
    environ = {k: v for k, v in inherited.items() if not k.startswith(_NOT_INHERITED)}
    environ["OMP_NUM_THREADS"] = str(thread_count(knobs, device))
    environ["PYTHONSAFEPATH"] = "1"
    environ["PYTHONUNBUFFERED"] = "1"
    if knobs.get("malloc") == "glibc-tuned":
        environ["GLIBC_TUNABLES"] = GLIBC_TUNED
    return environ


def thread_count(knobs: Mapping[str, Scalar], device: Device) -> int:
    """Return the number of compute threads: the knob `threads`, or one a core of the device."""
    return int(knobs.get("threads", 0)) or len(device.host_cores) or 1
