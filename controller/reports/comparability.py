"""Whether results may be compared: the first fact that differs and must not.

Which facts those are, `contracts/facts.yaml` and manifests declare. Pure.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence

from controller.contracts.facts import SIDES, Equal, OwnFact, compared_facts
from controller.contracts.records import StoredResult

Side = Sequence[StoredResult]


def difference(a: Side, b: Side, own: Mapping[str, OwnFact]) -> str | None:
    """Return the first fact that differs but must not, or None.

    a, b: results of one side each; paired results are all in `a`. own: what the catalogue's stacks
    and scenarios declare. A fact that some results have and others lack differs, too.
    """
    everything = (*a, *b)

    def compared(equal: Equal, results: Side, sides: Sequence[str] = SIDES) -> list[str]:
        """Return the names of the facts to look at, also those of a paired result's sides."""
        names = compared_facts(equal, results[0].scenario, own) if results else ()
        return [f"{side}{name}" for name in names for side in sides]

    rules: list[tuple[Iterable[str], Callable[[StoredResult, str], Hashable], Side]] = [
        (("device", "device_kind", "virtual", "workload", "scenario"), _field, everything),
        (compared(Equal.RESULTS, everything, sides=("",)), _fact, everything),
        *((compared(Equal.STACK, same), _fact, same) for same in _by_stack(everything)),
        *((compared(Equal.SIDE, side), _fact, side) for side in (a, b)),
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


def _field(result: StoredResult, name: str) -> Hashable:
    value: Hashable = getattr(result, name)
    return value


def _fact(result: StoredResult, name: str) -> Hashable:
    return result.environment.get(name)


def _shown(value: Hashable) -> str:
    if value is None:
        return "unknown"
    return " ".join(map(str, value)) if isinstance(value, tuple) else str(value)
