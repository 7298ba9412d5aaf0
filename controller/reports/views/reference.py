"""The reference of a ranking's rows: a sweep's baseline, or the first of several subjects."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Protocol

from controller.contracts.base import Scalar
from controller.contracts.catalog import Catalog
from controller.reports.groups import Group, NoRatio, baseline_of, matches


class SubjectKind(StrEnum):
    """The kinds of subjects; all subjects of a comparison are of one kind."""

    SWEEP = "sweep"
    DEVICE = "device"
    CELL = "cell"


_SHARED: Mapping[SubjectKind, tuple[str, ...]] = {
    SubjectKind.SWEEP: ("stack", "knobs", "device"),
    SubjectKind.DEVICE: ("stack", "knobs"),
    SubjectKind.CELL: ("device",),
}
"""Kind of subject → the fields that two groups must share to be compared."""


class Reference(Protocol):
    """Chooses the reference of each row within one ranking."""

    @property
    def name(self) -> str:
        """The name of the reference; empty for none. Read once a ranking, for its column."""
        ...

    def chosen(self, groups: Sequence[Group]) -> list[Group]:
        """Return the groups of a ranking that are references; called first, once a ranking."""
        ...

    def of(self, group: Group, chosen: Sequence[Group]) -> Group | NoRatio:
        """Return the chosen group that a group is compared with, or why there is none; called for
        each other group."""
        ...


@dataclass(frozen=True, slots=True)
class Baseline:
    """The baseline cell of a sweep, on each device."""

    marks: Mapping[str, Scalar]
    catalog: Catalog
    """Has the defaults of knobs that cells omit."""

    @property
    def name(self) -> str:
        """`baseline`, if the sweep has one."""
        return "baseline" if self.marks else ""

    def chosen(self, groups: Sequence[Group]) -> list[Group]:
        """Return the groups that match the sweep's baseline."""
        return [group for group in groups if matches(group.origin, self.marks, self.catalog)]

    def of(self, group: Group, chosen: Sequence[Group]) -> Group | NoRatio:
        """Return the baseline on the same device, or on the one that the sweep names for it."""
        return baseline_of(group, chosen, self.marks)


@dataclass(frozen=True, slots=True)
class FirstSubject:
    """The first subject of a comparison."""

    kind: SubjectKind
    name: str

    def chosen(self, groups: Sequence[Group]) -> list[Group]:
        """Return the first subject's groups."""
        return [group for group in groups if group.subject == self.name]

    def of(self, group: Group, chosen: Sequence[Group]) -> Group | NoRatio:
        """Return the first subject's group that differs only in the subject.

        None is taken if two fit (the same cell selected twice): the choice would be arbitrary.
        """
        alike = [other for other in chosen if self._context(other) == self._context(group)]
        return alike[0] if len(alike) == 1 else NoRatio.NOTHING_ALIKE

    def _context(self, group: Group) -> list[object]:
        return [getattr(group.origin, name) for name in _SHARED[self.kind]]
