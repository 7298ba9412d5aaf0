"""Which outcomes a user asks the store for. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from controller.contracts.base import Scalar
from controller.contracts.records import OutcomeOrigin
from controller.contracts.result import Validity
from controller.contracts.sweep import PairedCandidate, Side


@dataclass(frozen=True, slots=True)
class CellFilter:
    """Conditions on a cell; None and an empty mapping keep everything."""

    workload: str | None = None
    scenario: str | None = None
    stack: str | None = None
    knobs: Mapping[str, Scalar] = field(default_factory=dict)
    """Stack and knobs are those of one side of a paired comparison, whichever it is."""

    @property
    def keeps_all(self) -> bool:
        """Whether it has no condition."""
        return self == CellFilter()

    def keeps(
        self, workload: str, scenario: str, side: Side, versus: PairedCandidate | None
    ) -> bool:
        """Return whether a cell fulfils all conditions; `side` is side A of a paired one."""
        return (
            self.workload in (None, workload)
            and self.scenario in (None, scenario)
            and any(self._keeps_side(one) for one in (side, versus) if one)
        )

    def _keeps_side(self, side: Side) -> bool:
        return self.stack in (None, side.stack) and all(
            name in side.knobs and _same(side.knobs[name], value)
            for name, value in self.knobs.items()
        )


@dataclass(frozen=True, slots=True)
class OutcomeFilter:
    """Conditions on a result or failure; None keeps everything."""

    cell: CellFilter = CellFilter()
    sweep_id: str | None = None
    tags: frozenset[str] = frozenset()
    """Its sweep has all of them."""
    device: str | None = None
    validity: Validity | None = None
    since: float | None = None
    """Seconds since the epoch; it started then or later."""
    until: float | None = None
    """Seconds since the epoch; it started earlier."""

    def keeps(self, origin: OutcomeOrigin) -> bool:
        """Return whether an outcome fulfils all conditions; a failure has no validity."""
        side = Side(stack=origin.stack, knobs=origin.knobs)
        return (
            self.cell.keeps(origin.workload, origin.scenario, side, origin.versus)
            and self.sweep_id in (None, origin.sweep_id)
            and self.tags.issubset(origin.tags)
            and self.device in (None, origin.device)
            and self.validity in (None, getattr(origin, "validity", None))
            and (self.since is None or origin.started_at >= self.since)
            and (self.until is None or origin.started_at < self.until)
        )


def _same(one: Scalar, other: Scalar) -> bool:
    """Return whether two values of a knob are one; true is not 1."""
    return isinstance(one, bool) is isinstance(other, bool) and one == other
