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
