"""The parts of a suite's session in their order, and the sweep of each; pure.

A session is kept nowhere but in its sweeps: each has one cell, which is one part of the suite in
one try, and a name that says of which session, try and part it is. So a part that is submitted
again is the same sweep.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, Self

from controller.contracts.base import Contract, Scalar, digest
from controller.contracts.errors import UserError
from controller.contracts.mobile import SURROGATE, task_of
from controller.contracts.records import SweepRecord
from controller.contracts.suite_rules import UNVERIFIED, SuiteRules
from controller.contracts.suite_version import SUITE_VERSION
from controller.contracts.sweep import Sweep

DEADLINE_S: Final = 4 * 3600.0
"""For a part: the largest data set, for accuracy, takes a slow phone more than an hour."""
BY_RULES: Final[Mapping[str, Scalar]] = {
    "mode": "submission",
    "length": "normal",
    "policy": "mlperf",
}
"""The knobs of a part that the rules of every version settle alike."""
LAST_SESSION: Final = 999_999
"""The largest number of a session that the names of its sweeps have room for."""
_NAME: Final = re.compile(r"suite-(v\d+\.\d+-[0-9a-f]{6}-\d{1,6})\.(\d{1,3})\.(\d{1,3})")


class Part(Contract):
    """A task under a scenario."""

    workload: str
    """The task, or its surrogate."""
    scenario: str
    knobs: dict[str, Scalar]

    @property
    def task(self) -> str:
        """The task of the suite."""
        return task_of(self.workload)

    @property
    def label(self) -> str:
        """Task and scenario."""
        return f"{self.task} {self.scenario}"


class SuitePlan(Contract):
    """What is run in each try of a session, in order; two equal plans have the same key."""

    suite: str
    """Suite and version, for people."""
    version: str
    device: str
    stack: str
    parts: tuple[Part, ...]

    @property
    def key(self) -> str:
        """Six hex digits of the plan's digest."""
        return digest(self.model_dump(mode="json"), 6)

    @property
    def prefix(self) -> str:
        """What the ids of its sessions begin with."""
        return f"{self.version}-{self.key}-"

    def session(self, number: int) -> str:
        """Return the id of the plan's n-th session, from 1; raises UserError beyond the last."""
        return numbered(self.prefix, number)

    def sweep(self, place: Place) -> Sweep:
        """Return the sweep of a part in a try."""
        part = self.parts[place.part]
        where = f"try {place.number}, part {place.part + 1} of {len(self.parts)}"
        return Sweep(
            name=place.name,
            description=f"{self.suite} ({UNVERIFIED}): session {place.session}, {where}",
            workload=(part.workload,),
            stack=(self.stack,),
            scenario=(part.scenario,),
            knobs={name: (value,) for name, value in part.knobs.items()},
            devices=(f'device == "{self.device}"',),
            deadline_s=DEADLINE_S,
        )

    def place_of(self, sweep: Sweep) -> Place | None:
        """Return the place in a session of this plan that a sweep is of; None if it is of none.

        Its name alone says little: anybody may give a sweep that name.
        """
        place = Place.of(sweep.name)
        if place is None or not place.session.startswith(self.prefix):
            return None
        known = place.part < len(self.parts)
        return place if known and self.sweep(place).sweep_id(1) == sweep.sweep_id(1) else None


@dataclass(frozen=True, slots=True, order=True)
class Place:
    """Which part of which try of a session a sweep is."""

    session: str
    number: int
    """Of the try, from 1."""
    part: int
    """Index in the plan."""

    @property
    def name(self) -> str:
        """The name of its sweep."""
        return f"suite-{self.session}.{self.number}.{self.part + 1}"

    @classmethod
    def of(cls, sweep_name: str) -> Self | None:
        """Return what a sweep's name says; None if it is of no session."""
        found = _NAME.fullmatch(sweep_name)
        if found is None or not (int(found[2]) and int(found[3])):
            return None
        return cls(found[1], int(found[2]), int(found[3]) - 1)


PlaceOf = Callable[[Sweep], Place | None]
"""Returns the place of a sweep in a session; None if it is of none."""


def places_of(records: Iterable[SweepRecord], place_of: PlaceOf) -> dict[str, Place]:
    """Return the places of the sweeps that sessions consist of, by the sweeps' ids, oldest first.

    A place has one sweep, the first. One submitted again, or by another user, is measured anew, and
    only used the device: else a result could be chosen among several. records: oldest first.
    """
    first: dict[Place, str] = {}
    for record in records:
        if place := place_of(record.sweep):
            first.setdefault(place, record.sweep_id)
    return {sweep_id: place for place, sweep_id in first.items()}


def parts_of(
    rules: SuiteRules,
    tasks: Sequence[str],
    knobs_of: Mapping[str, Mapping[str, Scalar]],
    *,
    length: str,
    surrogates: bool,
    optional: bool = True,
) -> tuple[Part, ...]:
    """Return the parts of some tasks of a version, in its order.

    knobs_of: further knobs of each task; optional: whether with those that a whole suite may lack.
    """
    return tuple(
        Part(
            workload=task + (SURROGATE if surrogates else ""),
            scenario=scenario,
            knobs={
                **BY_RULES,
                SUITE_VERSION: rules.version,
                "length": length,
                **knobs_of.get(task, {}),
            },
        )
        for task, of_task in rules.tasks.items()
        if task in tasks
        for scenario in (of_task.scenarios if optional else of_task.required)
    )


def numbered(prefix: str, number: int) -> str:
    """Return the id of a session; raises UserError if the names of its sweeps lack room for it."""
    if number > LAST_SESSION:
        tried = f"start session {prefix}{number}"
        seen = f"sessions are numbered up to {LAST_SESSION}, and that one exists"
        remedy = "Leave out --again to continue it."
        raise UserError(tried, seen, remedy)
    return f"{prefix}{number}"


def version_of(session: str) -> str:
    """Return the version of the suite that a session is of."""
    return session.partition("-")[0]


def number_of(session: str) -> int:
    """Return a session's number among those of its plan."""
    return int(session.rpartition("-")[2])


def newest_of(plan: SuitePlan, sessions: Sequence[str]) -> int:
    """Return the number of a plan's newest session; 0 if it has none."""
    return max((number_of(s) for s in sessions if s.startswith(plan.prefix)), default=0)
