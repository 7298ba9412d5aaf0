"""The sides of results. Pure."""

from __future__ import annotations

from controller.contracts.base import Scalar
from controller.contracts.catalog import Catalog
from controller.contracts.records import OutcomeOrigin, StoredResult
from controller.contracts.sweep import Side


def side_of(record: OutcomeOrigin) -> Side:
    """Return the side of a result; side A of a paired one."""
    return Side(stack=record.stack, knobs=record.knobs)


def sides_of(record: OutcomeOrigin) -> tuple[Side, Side]:
    """Return both sides of a paired result; raises ValueError if it is not paired."""
    if record.versus is None:
        raise ValueError(f"run {record.run_id} is no paired comparison")
    return side_of(record), Side(stack=record.versus.stack, knobs=record.versus.knobs)


def with_omitted(result: StoredResult, catalog: Catalog) -> StoredResult:
    """Return a result with the knobs that its cells omit, since they have their default."""

    def knobs_of(side: Side) -> dict[str, Scalar]:
        return catalog.with_omitted(result.workload, side.stack, result.scenario, side.knobs)

    versus = result.versus
    if versus:
        versus = versus.model_copy(update={"knobs": knobs_of(versus)})
    own = knobs_of(side_of(result))
    return result.model_copy(update={"knobs": own, "versus": versus})


def without_lone_defaults(
    sides: tuple[Side, Side], of: StoredResult, catalog: Catalog
) -> tuple[Side, Side]:
    """Return sides without defaults that cells omit and the other side's stack doesn't declare.

    Nobody set these, and they tell nothing apart.
    """

    def told(side: Side, other: Side) -> Side:
        omitted = catalog.omitted(of.workload, side.stack, of.scenario).items()
        lone = {name for name, _ in side.knobs.items() & omitted} - other.knobs.keys()
        return Side(
            stack=side.stack, knobs={n: to for n, to in side.knobs.items() if n not in lone}
        )

    a, b = sides
    return told(a, b), told(b, a)
