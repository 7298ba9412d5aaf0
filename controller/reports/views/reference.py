"""What the rows of a ranking are compared with: a sweep's baseline, or the first of several."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Protocol

from controller.contracts.base import Scalar
from controller.reports.groups import Group, baseline_of, matches


class SubjectKind(StrEnum):
    """What can be compared: all subjects of a comparison are of one kind."""

    SWEEP = "sweep"
    DEVICE = "device"
    CELL = "cell"


_SHARED: Mapping[SubjectKind, tuple[str, ...]] = {
    SubjectKind.SWEEP: ("stack", "knobs", "device"),
    SubjectKind.DEVICE: ("stack", "knobs"),
    SubjectKind.CELL: ("device",),
}
"""What two groups must share to be compared: all that subjects of this kind leave open."""


class Reference(Protocol):
    """Chooses what a row is compared with, within one ranking."""

    @property
    def name(self) -> str:
        """What the reference is called; empty for none. Read once a ranking, for its column."""
        ...

    def chosen(self, groups: Sequence[Group]) -> list[Group]:
        """Return the groups of a ranking that are references; called first, once a ranking."""
        ...

    def of(self, group: Group, chosen: Sequence[Group]) -> Group | None:
        """Return which of the chosen a group is compared with; called for each other group."""
        ...


@dataclass(frozen=True, slots=True)
class Baseline:
    """The cell that a sweep marks as its baseline, on each device."""

    marks: Mapping[str, Scalar]

    @property
    def name(self) -> str:
        """`baseline`, if the sweep has one."""
        return "baseline" if self.marks else ""

    def chosen(self, groups: Sequence[Group]) -> list[Group]:
        """Return the groups the sweep marks."""
        return [group for group in groups if matches(group.origin, self.marks)]

    def of(self, group: Group, chosen: Sequence[Group]) -> Group | None:
        """Return the baseline of the same device, or the only one there is."""
        return baseline_of(group, chosen)


@dataclass(frozen=True, slots=True)
class FirstSubject:
    """The first of the subjects that are compared."""

    kind: SubjectKind
    name: str

    def chosen(self, groups: Sequence[Group]) -> list[Group]:
        """Return the first subject's groups."""
        return [group for group in groups if group.subject == self.name]

    def of(self, group: Group, chosen: Sequence[Group]) -> Group | None:
        """Return the first subject's group that differs in nothing but the subject, if it is one.

        Two that would do (the same cell asked for by two selectors) make it a matter of luck: none.
        """
        alike = [other for other in chosen if self._context(other) == self._context(group)]
        return alike[0] if len(alike) == 1 else None

    def _context(self, group: Group) -> list[object]:
        return [getattr(group.origin, name) for name in _SHARED[self.kind]]
