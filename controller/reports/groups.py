"""Outcomes grouped by cell and device, and which groups may be compared. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from controller.contracts.base import Scalar
from controller.contracts.records import OutcomeOrigin, StoredFailure, StoredResult
from controller.contracts.result import Measurement, Validity

ENERGY = "energy"
"""The metric of energy above idle; its value may be unknown, see docs/energy.md."""
LONGEST_REASON = 80


@dataclass(frozen=True, slots=True, eq=False)
class Group:
    """All counted outcomes of one cell on one device; there is at least one."""

    results: list[StoredResult]
    failures: list[StoredFailure]
    subject: str = ""
    """In a comparison: the name of the subject that the group belongs to."""

    @property
    def origin(self) -> OutcomeOrigin:
        """The fields that all outcomes share (and the run of the first one)."""
        return (self.results or self.failures)[0]

    @property
    def valid(self) -> list[StoredResult]:
        """The VALID results."""
        return [r for r in self.results if r.validity is Validity.VALID]

    def count(self, validity: Validity) -> int:
        """Return how many results have a validity."""
        return sum(result.validity is validity for result in self.results)

    def measurements(self) -> dict[str, Measurement]:
        """Return each metric of the VALID results, as in the last one that has it."""
        return {n: m for result in self.valid for n, m in result.metrics.items()}

    @property
    def energy_unknown(self) -> str:
        """Why no VALID result has energy; empty if one has, or if energy is not mentioned."""
        if any(ENERGY in r.metrics for r in self.valid):
            return ""
        reasons = [str(why) for r in self.valid if (why := r.environment.get("energy_unknown"))]
        return "; ".join(dict.fromkeys(reasons))[:LONGEST_REASON]

    def values(self, metric: str) -> tuple[float, ...]:
        """Return the value that each VALID result reports."""
        return tuple(r.metrics[metric].value for r in self.valid if metric in r.metrics)

    def samples(self, metric: str) -> list[tuple[float, ...]]:
        """Return raw samples, one sequence for each VALID result; its value if it has no
        samples."""
        found = [r.metrics[metric] for r in self.valid if metric in r.metrics]
        return [m.samples or (m.value,) for m in found]


def grouped(
    results: Iterable[StoredResult], failures: Iterable[StoredFailure], subject: str = ""
) -> list[Group]:
    """Return a group for each (cell, device), in order of appearance.

    Late outcomes and paired comparisons, which have two cells, are left out.
    """
    groups: dict[tuple[str, str], Group] = {}

    def group(origin: OutcomeOrigin) -> Group:
        return groups.setdefault((origin.cell_key, origin.device), Group([], [], subject))

    for result in results:
        if result.counted and result.versus is None:
            group(result).results.append(result)
    for failure in failures:
        if failure.counted and failure.versus is None:
            group(failure).failures.append(failure)
    return list(groups.values())


def matches(origin: OutcomeOrigin, baseline: Mapping[str, Scalar]) -> bool:
    """Return whether a cell matches a sweep's baseline; an empty baseline matches none."""
    fields = {name: getattr(origin, name) for name in ("workload", "stack", "scenario", "device")}
    wanted = baseline.items()
    return bool(baseline) and all(fields.get(n, origin.knobs.get(n)) == v for n, v in wanted)


def baseline_of(group: Group, chosen: Sequence[Group]) -> Group | None:
    """Return the baseline group to compare a group with, preferably on its own device, or None.

    Return None if two baselines fit, since the choice would be arbitrary. A virtual device is never
    compared with a real one.
    """
    mine = group.origin
    alike = [other for other in chosen if _same_task(other.origin, mine)]
    own = [other for other in alike if other.origin.device == mine.device]
    return own[0] if len(own) == 1 else alike[0] if len(alike) == 1 else None


def _same_task(one: OutcomeOrigin, other: OutcomeOrigin) -> bool:
    key = ("workload", "scenario", "virtual")
    return all(getattr(one, name) == getattr(other, name) for name in key)
