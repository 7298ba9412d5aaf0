"""Which outcomes a user asks the store for. Pure."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from controller.contracts.base import Scalar
from controller.contracts.records import OutcomeOrigin, StoredFailure, StoredResult
from controller.contracts.result import Validity
from controller.contracts.sweep import PairedCandidate, Side

Omitted = Callable[[str, str, str], Mapping[str, Scalar]]
"""Workload, stack and scenario → knobs that such cells may lack, with the value that this means."""


def nothing_omitted(workload: str, stack: str, scenario: str) -> Mapping[str, Scalar]:
    """Return no knob: cells have all of theirs."""
    return {}


@dataclass(frozen=True, slots=True)
class CellFilter:
    """Conditions on a cell; None and an empty mapping keep everything."""

    workload: str | None = None
    scenario: str | None = None
    stack: str | None = None
    knobs: Mapping[str, Scalar] = field(default_factory=dict)
    """Stack and knobs are those of one side of a paired comparison, whichever it is."""
    omitted: Omitted = field(default=nothing_omitted, compare=False)
    """See Catalog.omitted; asked only where a cell lacks a knob."""

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
            and any(self._keeps_side(workload, scenario, one) for one in (side, versus) if one)
        )

    def _keeps_side(self, workload: str, scenario: str, side: Side) -> bool:
        if self.stack not in (None, side.stack):
            return False
        knobs: Mapping[str, Scalar] = side.knobs
        if not self.knobs.keys() <= knobs.keys():
            knobs = {**self.omitted(workload, side.stack, scenario), **knobs}
        return all(
            name in knobs and _same(knobs[name], value) for name, value in self.knobs.items()
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
    virtual: bool | None = None
    """Whether its device was a virtual one."""
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
            and self.virtual in (None, origin.virtual)
            and (self.since is None or origin.started_at >= self.since)
            and (self.until is None or origin.started_at < self.until)
        )


def _same(one: Scalar, other: Scalar) -> bool:
    """Return whether two values of a knob are one; true is not 1."""
    return isinstance(one, bool) is isinstance(other, bool) and one == other


@dataclass(frozen=True, slots=True)
class Chosen:
    """Results to set against each other; an empty set keeps everything."""

    devices: frozenset[str] = frozenset()
    workloads: frozenset[str] = frozenset()
    stacks: frozenset[str] = frozenset()
    scenarios: frozenset[str] = frozenset()
    sweeps: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class MeasuredKind:
    """What a cell measures, without its knobs."""

    workload: str
    stack: str
    scenario: str


class Place(NamedTuple):
    """Where an outcome stands among all: its number in the order of storing, and its start."""

    number: int
    started_at: float
    """Seconds since the epoch."""


@dataclass(frozen=True, slots=True)
class PageRequest:
    """Which part of the outcomes that a filter keeps is read, and in which order."""

    size: int
    """Most outcomes of the page."""
    after: Place | None = None
    """The place of the last outcome of the page before; None for the first page."""
    by_start: bool = False
    """Whether the order is that of their starts, rather than that of storing."""
    descending: bool = False


@dataclass(frozen=True, slots=True)
class ResultPage:
    """Results in the order that was asked for."""

    results: Sequence[StoredResult]
    last: Place | None
    """The place of the page's last result; None if no further one follows."""
    left_out: int = 0
    """Damaged results that belong to the page."""


@dataclass(frozen=True, slots=True)
class FailurePage:
    """Failures in the order that was asked for."""

    failures: Sequence[StoredFailure]
    last: Place | None
    """The place of the page's last failure; None if no further one follows."""
    left_out: int = 0
    """Damaged failures that belong to the page."""
