"""Outcomes grouped by cell and device, and which groups may be compared. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum

from controller.contracts.base import Scalar
from controller.contracts.catalog import Catalog
from controller.contracts.records import OutcomeOrigin, StoredFailure, StoredResult
from controller.contracts.result import Measurement, Validity, usable
from controller.reports.figures import RANDOM, WEIGHTS

ENERGY = "energy"
"""The metric of energy above idle; its value may be unknown, see docs/energy.md."""
LONGEST_REASON = 80


class NoRatio(StrEnum):
    """Why a row has no ratio to its reference."""

    NO_RUN = "no baseline run"
    ANOTHER_DEVICE = "another device"
    SEVERAL = "several baselines"
    NOT_VALID = "not VALID"
    BASELINE_NOT_VALID = "baseline not VALID"
    NOT_POSITIVE = "a value is not positive"
    NO_SPEED = "no speed"
    """The scenario checks a cell: being nearer to a reference makes no device faster."""
    NOTHING_ALIKE = "nothing alike"
    """In a comparison: the first subject has no such cell, or two."""


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

    @property
    def shown(self) -> list[StoredResult]:
        """Those whose figures are shown: the VALID ones; if there are none, the DISTURBED ones."""
        return usable(self.results)

    def count(self, validity: Validity) -> int:
        """Return how many results have a validity."""
        return sum(result.validity is validity for result in self.results)

    def measurements(self) -> dict[str, Measurement]:
        """Return each metric of the results shown, as in the last one that has it."""
        return {n: m for result in self.shown for n, m in result.metrics.items()}

    @property
    def random_weights(self) -> bool:
        """Whether a model with random weights was measured: its speed is all that is told."""
        return any(result.environment.get(WEIGHTS) == RANDOM for result in self.results)

    @property
    def energy_unknown(self) -> str:
        """Why no result shown has energy; empty if one has, or if energy is not mentioned."""
        if any(ENERGY in r.metrics for r in self.shown):
            return ""
        reasons = [str(why) for r in self.shown if (why := r.environment.get("energy_unknown"))]
        return "; ".join(dict.fromkeys(reasons))[:LONGEST_REASON]

    def told(self, fact: str) -> str:
        """Return what all results say in a fact that is a sentence, INVALID ones too; may be
        empty."""
        said = [str(why) for r in self.results if (why := r.environment.get(fact))]
        return "; ".join(dict.fromkeys(said))[:LONGEST_REASON]

    def figures(self, fact: str) -> tuple[float, ...]:
        """Return what each result shown says in a fact that is a number."""
        said = [r.environment.get(fact) for r in self.shown]
        return tuple(float(one) for one in said if isinstance(one, float | int))

    def values(self, metric: str) -> tuple[float, ...]:
        """Return the value that each result shown reports."""
        return tuple(r.metrics[metric].value for r in self.shown if metric in r.metrics)

    def samples(self, metric: str) -> list[tuple[float, ...]]:
        """Return raw samples, one sequence for each result shown; its value if it has no
        samples."""
        return [r.metrics[metric].drawn for r in self.shown if metric in r.metrics]


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


def matches(origin: OutcomeOrigin, baseline: Mapping[str, Scalar], catalog: Catalog) -> bool:
    """Return whether a cell matches a sweep's baseline; an empty baseline matches none."""
    if not baseline:
        return False
    knobs = catalog.with_omitted(origin.workload, origin.stack, origin.scenario, origin.knobs)
    fields = {name: getattr(origin, name) for name in ("workload", "stack", "scenario", "device")}
    return all(fields.get(name, knobs.get(name)) == value for name, value in baseline.items())


def baseline_of(
    group: Group, chosen: Sequence[Group], baseline: Mapping[str, Scalar]
) -> Group | NoRatio:
    """Return the baseline to compare a group with, or why there is none.

    chosen: the baselines of the group's own task. It is one of the same device, unless the baseline
    names a device: then it is that device's, of the same cell if there are several. Of two that fit
    none is taken, since the choice would be arbitrary.
    """
    mine = group.origin
    own = [other for other in chosen if other.origin.device == mine.device]
    if not own and "device" in baseline:
        own = _only_one(chosen) or [other for other in chosen if _same_cell(other.origin, mine)]
        return own[0] if len(own) == 1 else NoRatio.SEVERAL if chosen else NoRatio.NO_RUN
    if not own:
        return NoRatio.ANOTHER_DEVICE if chosen else NoRatio.NO_RUN
    return own[0] if len(own) == 1 else NoRatio.SEVERAL


def _only_one(chosen: Sequence[Group]) -> list[Group]:
    return list(chosen) if len(chosen) == 1 else []


def _same_cell(one: OutcomeOrigin, other: OutcomeOrigin) -> bool:
    return (one.stack, one.knobs) == (other.stack, other.knobs)
