"""Whether results may be compared: the facts that must agree, and the first that differs. Pure."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Sequence

from controller.contracts.records import StoredResult

HOST_FACTS = (
    *("cpu_model", "cpu_vendor", "architecture", "microcode", "isa", "cores", "logical_cpus"),
    *("sockets", "numa_nodes", "memory_bytes", "hypervisor", "kernel", "os", "governor"),
    *("manufacturer", "model", "soc", "abi", "fingerprint", "android"),
)
"""Facts about the device and its system: must be equal for all results."""

STACK_FACTS = (
    *("python", "torch", "torch_isa", "onednn", "onednn_isa", "ipex_onednn", "ipex_onednn_isa"),
    *("runtime", "litert", "tflite", "loadgen", "numpy", "delegate"),
)
"""Facts about software: must be equal for all results of one stack."""

KERNELS = "kernels"
"""The variant of our kernels: a software fact, unless a cell selects a variant to measure it."""

LAUNCH_FACTS = ("threads", "interop_threads", "affinity", "malloc", "openmp", "settings")
"""Facts about the start of a process: must be equal for all results of one side."""

Side = Sequence[StoredResult]


def difference(a: Side, b: Side = ()) -> str | None:
    """Return the first fact that differs but must not, or None.

    a, b: results of one side each; paired results are all in `a`. A fact that only some results
    have counts as different.
    """
    everything = (*a, *b)
    rules: list[tuple[Iterable[str], Callable[[StoredResult, str], Hashable], Side]] = [
        (("device", "device_kind", "virtual", "workload", "scenario"), _field, everything),
        (HOST_FACTS, _fact, everything),
        *((_both_sides(_stack_facts(same)), _fact, same) for same in _by_stack(everything)),
        *((_both_sides(LAUNCH_FACTS), _fact, side) for side in (a, b)),
    ]
    found = (_first(names, value, results) for names, value, results in rules)
    return next((said for said in found if said), None)


def _first(
    names: Iterable[str], value: Callable[[StoredResult, str], Hashable], results: Side
) -> str | None:
    for name in names:
        seen = list(dict.fromkeys(value(result, name) for result in results))
        if len(seen) > 1:
            return f"{name} differs: {_shown(seen[0])} and {_shown(seen[1])}"
    return None


def _by_stack(results: Side) -> list[list[StoredResult]]:
    stacks = dict.fromkeys((r.stack, r.versus.stack if r.versus else None) for r in results)
    return [
        [r for r in results if (r.stack, r.versus.stack if r.versus else None) == stack]
        for stack in stacks
    ]


def _stack_facts(results: Side) -> tuple[str, ...]:
    return STACK_FACTS if results[0].scenario == "kernel" else (*STACK_FACTS, KERNELS)


def _both_sides(names: Sequence[str]) -> list[str]:
    """Add the names that a paired result uses for facts that differ between its sides."""
    return [f"{prefix}{name}" for name in names for prefix in ("", "a.", "b.")]


def _field(result: StoredResult, name: str) -> Hashable:
    value: Hashable = getattr(result, name)
    return value


def _fact(result: StoredResult, name: str) -> Hashable:
    return result.environment.get(name)


def _shown(value: Hashable) -> str:
    if value is None:
        return "unknown"
    return " ".join(map(str, value)) if isinstance(value, tuple) else str(value)
