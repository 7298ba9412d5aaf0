"""Whether results may be compared: the facts that have to agree, and the first that does not.

Pure.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Sequence

from controller.contracts.records import StoredResult

HOST_FACTS = (
    *("cpu_model", "cpu_vendor", "architecture", "microcode", "isa", "cores", "logical_cpus"),
    *("sockets", "numa_nodes", "memory_bytes", "hypervisor", "kernel", "os", "governor"),
    *("manufacturer", "model", "soc", "abi", "fingerprint", "android"),
)
"""Of the device and its system: equal for all results."""

STACK_FACTS = (
    *(
        "python",
        "torch",
        "onednn",
        "torch_isa",
        "runtime",
        "litert",
        "loadgen",
        "numpy",
        "delegate",
    ),
)
"""Of the software: equal for all results of one stack."""

LAUNCH_FACTS = ("threads", "interop_threads", "affinity", "glibc_tunables")
"""Of how a process was started: equal for all results of one side."""

Side = Sequence[StoredResult]


def difference(a: Side, b: Side = ()) -> str | None:
    """Return the first fact in which results differ that must not, or None if they are alike.

    a, b: results of one side each; paired results are all in `a`. A fact that some results have
    and others lack differs, too.
    """
    everything = (*a, *b)
    rules: list[tuple[Iterable[str], Callable[[StoredResult, str], Hashable], Side]] = [
        (("device", "device_kind", "virtual", "workload", "scenario"), _field, everything),
        (HOST_FACTS, _fact, everything),
        *((_both_sides(STACK_FACTS), _fact, same) for same in _by_stack(everything)),
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


def _both_sides(names: Sequence[str]) -> list[str]:
    """Add the names by which a paired result tells its sides' facts where they differ."""
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
