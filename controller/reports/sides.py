"""The sides of results. Pure."""

from __future__ import annotations

from controller.contracts.records import OutcomeOrigin
from controller.contracts.sweep import Side


def side_of(record: OutcomeOrigin) -> Side:
    """Return the side of a result; side A of a paired one."""
    return Side(stack=record.stack, knobs=record.knobs)


def sides_of(record: OutcomeOrigin) -> tuple[Side, Side]:
    """Return both sides of a paired result; raises ValueError if it is not paired."""
    if record.versus is None:
        raise ValueError(f"run {record.run_id} is no paired comparison")
    return side_of(record), Side(stack=record.versus.stack, knobs=record.versus.knobs)
