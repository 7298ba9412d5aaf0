"""The causes of differences, and the declared facts that tell of each; pure data."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from controller.contracts.explanation import Cause
from controller.contracts.facts import FactKind, OwnFact, declaration_of

TOLD_BY: Final[Mapping[Cause, tuple[str, ...]]] = {
    Cause.MODEL: ("model_sha256", "weights", "weights_sha256", "workload_package", "input_type"),
    Cause.DATA: (
        *("dataset_checksums", "inputs_digest", "performance_samples", "sample_bytes"),
        *("data_sha256", "data_images", "data_boxes", "data_tokens", "data_sequences"),
    ),
    Cause.DELEGATE: (
        *("delegate", "delegated_nodes", "graph_nodes", "delegate_partitions"),
        "undelegated_operators",
    ),
    Cause.THREADS: ("threads", "interop_threads", "affinity", "ranks", "rank_cores"),
    Cause.RUN: (
        *("mode", "samples_at_once", "min_query_count", "min_duration_ms", "max_duration_ms"),
        *("loadgen_seeds", "suite_rules", "rules", "command", "kernel_shape", "kernel_variant"),
        "scenario_package",
    ),
    Cause.HARDWARE: (
        *(
            "cpu_model",
            "cpu_vendor",
            "architecture",
            "isa",
            "cores",
            "logical_cpus",
            "cpu_quota",
            "cpuset",
            "sockets",
        ),
        *("numa_nodes", "memory_bytes", "hypervisor", "manufacturer", "model", "soc", "abi"),
        *("emulated", "emulator", "machine", "cores_{before,after}", "isa_unusable"),
    ),
    Cause.GOVERNOR: ("governor", "governor_{before,after}"),
    Cause.BUNDLE: ("bundle",),
    Cause.VERSIONS: (
        *("runtime", "litert", "tflite", "loadgen", "numpy", "python", "torch", "torch_isa"),
        *("onednn", "onednn_isa", "ipex_onednn", "ipex_onednn_isa", "stack_package", "packages"),
        *("plugins", "cxx", "benchfarm", "benchfarm_commit"),
    ),
    Cause.KERNEL: ("kernel",),
    Cause.MICROCODE: ("microcode",),
    Cause.SYSTEM: ("os", "fingerprint", "android", "sdk"),
    Cause.SETTINGS: (
        *("malloc", "openmp", "settings", "numa_policy", "kernels", "kernels_reason"),
        *("root_{before,after}", "selinux_{before,after}"),
    ),
    Cause.POWER: (
        *("charging_{before,after}", "screen_{before,after}", "airplane_mode_{before,after}"),
    ),
}
"""Facts that either differ or don't, by declared name."""
MEASURED: Final[Mapping[Cause, tuple[str, ...]]] = {
    Cause.THREADS: ("threads_used",),
    Cause.LOAD: (
        "timed_other_cores",
        "timed_steal_share",
        "timed_quota_throttled_s",
        "steal_share",
        "load_{before,after}",
    ),
    Cause.HEAT: (
        *("timed_hottest_celsius", "celsius_*_during_max", "celsius_*_{before,after}"),
        *("battery_celsius_during_max", "battery_celsius_{before,after}", "room_celsius"),
    ),
    Cause.THROTTLING: (
        *("thermal_status_during_max", "thermal_status_{before,after}", "timed_throttles"),
        "timed_frequency_drop",
    ),
    Cause.CLOCK: (
        *("frequency_*_khz_during_mean", "frequency_khz_{before,after}"),
        *("khz_cpu*_{before,after}", "matmul_gflops"),
    ),
    Cause.MEMORY: (
        *("timed_memory_pressure", "copy_gbps", "memory_available_kb_{before,after}"),
        *("memory_before_samples_bytes", "huge_page_bytes"),
    ),
    Cause.POWER: ("screen_brightness_{before,after}",),
}
"""Facts that are never quite the same twice; see `measured.py`."""
BUNDLED: Final = ("runtime", "litert", "tflite", "loadgen", "numpy", "python")
"""Versions of what is in a bundle."""
EXPECTED: Final = ("model_sha256", "bundle", "benchfarm", "delegate", "threads")
"""Facts that are named if they are missing, by what may be told without them."""


def cause_of(name: str, own: Mapping[str, OwnFact]) -> Cause | None:
    """Return the cause that a stored fact tells of by differing; None if it tells of none.

    own: what the catalogue's stacks and scenarios declare.
    """
    declared = declaration_of(name)
    if declared is not None:
        return next((cause for cause, names in TOLD_BY.items() if declared.name in names), None)
    known = own.get(name[2:] if name.startswith(("a.", "b.")) else name)
    if known is None or known.kind is FactKind.CONDITION:
        return None
    return Cause.VERSIONS if known.kind is FactKind.IDENTITY else Cause.SETTINGS
